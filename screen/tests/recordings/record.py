"""Records what programs write to a terminal of 80 columns and 24 rows, for the tests of the screen.

Run where the programs are installed: python3 record.py [NAME...]. A recording ends at 60,000 bytes.
"""

import os, pty, select, signal, struct, sys, termios, fcntl, time

LIMIT = 60_000
SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../src")
ENV = {"TERM": "xterm-256color", "LANG": "C.UTF-8", "COLORTERM": "truecolor", "HOME": "/tmp", "RUSTUP_HOME": os.environ.get("RUSTUP_HOME", os.path.expanduser("~/.rustup")), "CARGO_HOME": os.environ.get("CARGO_HOME", os.path.expanduser("~/.cargo")), "PATH": os.environ["PATH"]}

DOWN, UP, PAGE = "\x1b[B", "\x1b[A", "\x1b[6~"
RECORDINGS = {
    "vim": (["vim", "-u", "NONE", "-c", "syntax on", "-c", "set number hlsearch", "print.rs"],
            ["\x06", "\x06", "/fn\r", "n", "n", "ggdd", "u", ":split\r", "\x06", "ihello \u6f22\u5b57 e\u0301\x1b", ":q!\r", "G", "\x02", "\x02"]
            + ["\x06", "\x02"] * 8 + [":q!\r"]),
    "less": (["less", "-N", "vt.rs"], [" "] * 12 + ["b"] * 8 + ["/self\r", "n", "n", "G", "g"] + ["j"] * 30 + ["d", "u"] * 8 + ["q"]),
    "htop": (["unshare", "-pf", "--mount-proc", "sh", "-c", "for i in 1 2 3 4 5 6; do sleep 99 & done; yes >/dev/null & exec htop -d 5"], [DOWN] * 5 + ["t", PAGE, "M", "P", "H", "\x1bOR", "a", "\x1b", DOWN, UP] * 9 + ["q"]),
    "tmux": (["tmux", "-f", "/dev/null", "-L", "keepline-recording", "new", "sh"],
             ["ls -l\r", "\x02%", "ls --color /usr/bin | head -60\r", '\x02"', "seq 200\r", "\x02o", "cat print.rs\r", "\x02z", "\x02z"]
             + ["cat vt.rs\r", "\x02o", "seq 500\r"] * 4 + ["\x02c", "ls\r", "\x02n", "\x02&y", "\x02&y"]),
    "git-log": (["git", "log", "--color=always", "--graph", "--stat", "-40"], [" "] * 40 + ["q"]),
    "cargo-build": (["sh", "-c", """
d=$(mktemp -d); cd $d; mkdir all; printf '[workspace]\nmembers = ["*"]\nexclude = ["target"]\nresolver = "3"\n' > Cargo.toml
for i in $(seq 60); do cargo new -q --lib --vcs none crate-$i; echo 'fn unused_$i() { let x = 1; }' >> crate-$i/src/lib.rs; done
rmdir all; CARGO_TARGET_DIR=$d/target cargo build; touch */src/lib.rs; CARGO_TARGET_DIR=$d/target cargo build; rm -r $d
"""], []),
    "progress": (["python3", "-c", """
import time,sys
for i in range(400):
    f=i/4
    sys.stdout.write("\\r\\x1b[2K\\x1b[32m%5.1f %%\\x1b[m \\x1b[44m%s\\x1b[m%s %d/400" % (f, " "*(i//10), "\\u2591"*(40-i//10), i))
    if i%40==0: sys.stdout.write("\\r\\x1b[K\\x1b[1mstep %d done\\x1b[m \\u2714\\n" % i)
    sys.stdout.flush(); time.sleep(0.002)
"""], []),
    "fzf": (["sh", "-c", "find /usr/share /usr/lib -name '*.*' 2>/dev/null | head -3000 | fzf --ansi --multi"],
            ["d", "o", "c", DOWN, UP, "\t", UP, "\t", "\x15", "x", "m", "l"] + [UP] * 30 + ["\x15", "p", "y"] + [UP] * 20 + [DOWN] * 20 + ["\x1b"]),
    "mc": (["mc", "-x", ".", "/usr"], ([DOWN] * 6 + ["\x1bOR", PAGE, PAGE, "\x1bOR", "\t", DOWN, DOWN, "\r", PAGE, "\x1b[20~", DOWN, DOWN, "\x1b\x1b", "\x0f", "\x0f"]) * 7),
}


def record(argv, keys):
    pid, master = pty.fork()
    if pid == 0:
        os.chdir(SOURCES)
        os.execvpe(argv[0], argv, ENV)
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    os.kill(pid, signal.SIGWINCH)
    out, keys, last, end = b"", list(keys), time.time(), time.time() + 90
    while len(out) < LIMIT and time.time() < end:
        ready = select.select([master], [], [], 0.1)[0]
        if ready:
            try:
                piece = os.read(master, 4096)
            except OSError:
                break
            if not piece:
                break
            out += piece
        if keys and time.time() - last > 0.25:
            os.write(master, keys.pop(0).encode())
            last = time.time()
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return out[:LIMIT]


for name, (argv, keys) in RECORDINGS.items():
    if len(sys.argv) > 1 and name not in sys.argv[1:]:
        continue
    out = record(argv, keys)
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), name + ".vt"), "wb") as file:
        file.write(out)
    print(name, len(out))
