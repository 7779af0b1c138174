//! What a program's output asks for besides the screen.

/// What came of some output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// Answers to the program's queries, in order.
    pub replies: Vec<Reply>,
    /// What a person should see, in order.
    pub events: Vec<Occurrence>,
}

impl Effects {
    /// All answers in one piece.
    #[must_use]
    pub fn reply_bytes(&self) -> Vec<u8> {
        self.replies.iter().flat_map(|reply| reply.bytes.iter().copied()).collect()
    }
}

/// An answer to a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Bytes of what was fed up to the end of the query. With the offset of the first fed byte it names the query, however
    /// the output is cut into pieces.
    pub at: usize,
    /// What to write to the PTY.
    pub bytes: Vec<u8>,
}

/// An event and where it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occurrence {
    /// Bytes of what was fed up to the end of what caused it.
    pub at: usize,
    /// What it was.
    pub event: Event,
}

/// Something that a person should see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The title changed; empty for none.
    Title(String),
    /// The bell rang. Several in a row are one, at the place of the last.
    Bell,
    /// The working directory changed (OSC 7): the path, as the program says.
    Cwd(String),
    /// A mark of the shell (OSC 133).
    Mark(Mark),
    /// A notification (OSC 9, 99, 777).
    Notification {
        /// Empty for none.
        title: String,
        /// Empty for none.
        body: String,
    },
    /// Data for a clipboard (OSC 52).
    Clipboard {
        /// The letters that name it; empty for the usual one.
        selection: String,
        /// The data; empty to clear it.
        data: Vec<u8>,
    },
}

/// What a shell marks with OSC 133.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A: a prompt begins.
    Prompt,
    /// B: the prompt ends and what is typed begins.
    Command,
    /// C: the command's output begins.
    Output,
    /// D: the command ended, with this status if the shell says one.
    End(Option<i32>),
}
