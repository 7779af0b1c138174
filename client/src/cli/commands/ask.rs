//! Requests whose answer is all there is to say.

use std::io::Read;
use std::path::Path;

use keepline_protocol::failure::{Code, Failure};
use serde_json::Value;

use super::{Outcome, Said, cell, json_line, random_key};
use crate::cli::context::{Context, Host};
use crate::cli::print;
use crate::cli::settings::{Ask, Prints};
use crate::cli::text::clean;

pub(super) async fn run<H: Host>(context: &Context<H>, mut ask: Ask) -> Outcome {
    complete(context, &mut ask)?;
    // What makes a first terminal may be what starts the daemon.
    let mut client = match ask.method {
        "terminal.new" => context.client_of_started().await?,
        _ => context.client().await?,
    };
    let answer = client.call(ask.method, ask.params, context.common.timeout).await?;
    if context.common.json {
        return match ask.prints {
            Prints::Json(member) => Ok(Said::Data(json_line(&answer[member])?)),
            _ => Ok(Said::Data(json_line(&answer)?)),
        };
    }
    Ok(Said::Data(match ask.prints {
        Prints::Nothing => String::new(),
        Prints::Value(member) => format!("{}\n", clean(&cell(&answer["value"], member))),
        Prints::Json(member) => pretty(&answer[member])?,
        Prints::Waited => waited(&answer),
        Prints::Unknown => {
            let unknown = answer["value"]["unknown"].as_array();
            for id in unknown.into_iter().flatten().filter_map(Value::as_str) {
                print::note(&format!("unknown: {}", clean(id)));
            }
            String::new()
        }
    }))
}

/// What fitted, or how the program ended.
fn waited(answer: &Value) -> String {
    let exit = answer["exit"].as_object().and_then(|exit| exit.iter().next());
    match (answer["matched"].as_str(), exit) {
        (Some(matched), _) => format!("{}\n", clean(matched)),
        (None, Some((kind, Value::String(reason)))) => format!("{kind} {}\n", clean(reason)),
        (None, Some((kind, number))) => format!("{kind} {number}\n"),
        (None, None) => String::new(),
    }
}

/// Fills in what only this process knows.
fn complete<H: Host>(context: &Context<H>, ask: &mut Ask) -> Result<(), Failure> {
    // Another machine knows nothing of this one's terminals and directories.
    let here = context.common.machine.is_none();
    let Some(params) = ask.params.as_object_mut() else {
        return Ok(());
    };
    if params.get("key").is_some_and(Value::is_null) {
        params.insert("key".to_owned(), random_key()?.into());
    }
    if let (true, Some(own)) = (here, context.own_terminal()) {
        if params.contains_key("caller") {
            params.insert("caller".to_owned(), own.to_string().into());
        }
        // `notify --clear` means the terminal that it runs in.
        let nothing = |name: &str| params.get(name).is_none_or(Value::is_null);
        if ask.method == "notification.clear"
            && matches!(ask.prints, Prints::Nothing)
            && nothing("terminal")
            && nothing("workspace")
        {
            params.insert("terminal".to_owned(), own.to_string().into());
        }
    }
    if here && let Some(Value::String(cwd)) = params.get_mut("cwd") {
        *cwd = absolute(cwd)?;
    }
    Ok(())
}

/// A relative directory is meant from where the person is, not from where the daemon is.
fn absolute(cwd: &str) -> Result<String, Failure> {
    std::path::absolute(cwd)
        .ok()
        .and_then(|path| path.into_os_string().into_string().ok())
        .ok_or_else(|| Failure::new(Code::Failed, format!("--cwd {cwd} cannot be made absolute")))
}

fn pretty(value: &Value) -> Result<String, Failure> {
    serde_json::to_string_pretty(value)
        .map(|text| text + "\n")
        .map_err(|error| Failure::new(Code::Internal, error.to_string()))
}

pub(super) async fn apply_layout<H: Host>(context: &Context<H>, file: &Path, mut ask: Ask) -> Outcome {
    let mut text = String::new();
    let read = if file == Path::new("-") {
        std::io::stdin().read_to_string(&mut text)
    } else {
        std::fs::File::open(file).and_then(|mut file| file.read_to_string(&mut text))
    };
    let unusable = |why: String| {
        let message = format!("cannot use the layout in '{}': {why}", file.display());
        Failure::new(Code::Failed, message)
    };
    read.map_err(|error| unusable(error.to_string()))?;
    let layout = serde_json::from_str(&text).map_err(|error| unusable(error.to_string()))?;
    ask.params["layout"] = layout;
    run(context, ask).await
}
