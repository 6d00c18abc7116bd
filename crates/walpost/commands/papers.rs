//! What a package installs beside the program: completions for shells, pages for man. Both are made of the definition of the command
//! line, so neither can be stale.

use std::io;
use std::path::Path;

use clap::Command;
use clap_complete::Shell;

use crate::commands::Outcome;
use crate::exit::{Ended, Exit};

/// What a shell has to know to complete our command lines.
#[must_use]
pub fn completions(mut command: Command, shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "walpost", &mut script);
    script
}

/// Writes a manual page for the program and for each of its commands into a folder.
///
/// # Errors
/// A page cannot be written.
pub fn man(command: Command, folder: &Path) -> Outcome {
    clap_mangen::generate_to(command, folder).map_err(|cause| unwritten(folder, cause))?;
    Ok(Exit::Success)
}

fn unwritten(folder: &Path, cause: io::Error) -> Ended {
    let sentence = format!("the manual pages cannot be written into {}; name a folder that exists", folder.display());
    Ended::because(Exit::Usage, anyhow::Error::new(cause).context(sentence))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn every_shell_is_told_of_every_command() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::Elvish, Shell::PowerShell] {
            let script = String::from_utf8(completions(Cli::command(), shell)).unwrap();
            for command in Cli::command().get_subcommands() {
                assert!(script.contains(command.get_name()), "{} in {shell}", command.get_name());
            }
        }
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let folder = Path::new("/no/such/folder");
        let ended = man(Cli::command(), folder).unwrap_err();
        assert!(ended.to_string().contains("/no/such/folder"), "{ended}");
        assert_eq!(ended.exit, Exit::Usage);
    }
}
