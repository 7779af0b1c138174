/// Fresh random bytes from the operating system.
///
/// # Panics
/// When the system has no random bytes to give, without which nothing here is safe to do.
#[must_use]
pub fn entropy<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    bytes
}
