//! The end of a command whose output is not read to its end, as in `./culm systems | head -2`.

use std::panic;
use std::process;

/// Exit status by which a shell reports a program that wrote to a closed pipe: 128 and the number
/// of SIGPIPE.
const LOST_READER: i32 = 141;

/// Makes the tool end quietly if it prints to a closed pipe.
///
/// The macros that print panic then, wherever they are. The signal that ends other programs is not
/// there to do it: Rust ignores it from the start, since a lost connection to an emulator or to a
/// peer must not end the tool.
pub fn end_quietly_without_reader() {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |panicked| {
        if panicked.payload_as_str().is_some_and(tells_of_lost_reader) {
            process::exit(LOST_READER);
        }
        usual(panicked);
    }));
}

/// Whether this is how `print!` and `eprint!` panic without a reader.
fn tells_of_lost_reader(message: &str) -> bool {
    message.starts_with("failed printing to std") && message.contains("Broken pipe")
}
