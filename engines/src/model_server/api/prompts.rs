//! Prompts of a request: their forms, their tokens, and whether these leave room for an answer.

use std::sync::Arc;

use serde_json::Value;

use super::Inner;
use super::error::ApiError;
use super::release::Release;
use crate::engine::Token;
use crate::model_server::tokenizer::Tokenizer;

/// A prompt as a client wrote it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Prompt {
    Text(String),
    Tokens(Vec<Token>),
}

/// Reads the four forms of `prompt`: a text, a list of texts, a list of token ids, a list of such lists.
pub(super) fn read(prompt: Option<&Value>) -> Result<Vec<Prompt>, ApiError> {
    let wrong = |place| ApiError::shape("prompt must be a text, token ids, or a list of either").field(place);
    // Of a list that no form fits it is the first item that vLLM names, whichever is wrong.
    let (itself, item) = ("body.prompt", "body.prompt.0");
    match prompt {
        None | Some(Value::Null) => Err(ApiError::checked("prompt", "prompt is required")),
        Some(Value::String(text)) if text.is_empty() => {
            Err(ApiError::checked("prompt", "prompt must not be empty"))
        }
        Some(Value::String(text)) => Ok(vec![Prompt::Text(text.clone())]),
        Some(Value::Array(items)) => match items.first() {
            None => Err(ApiError::raised("prompt must not be empty")),
            Some(Value::Number(_)) => Ok(vec![Prompt::Tokens(token_ids(items).ok_or_else(|| wrong(item))?)]),
            Some(_) => items
                .iter()
                .map(|item| match item {
                    Value::String(text) => Some(Prompt::Text(text.clone())),
                    Value::Array(ids) => token_ids(ids).map(Prompt::Tokens),
                    _ => None,
                })
                .collect::<Option<_>>()
                .filter(|prompts: &Vec<Prompt>| all_alike(prompts))
                .ok_or_else(|| wrong(item)),
        },
        Some(_) => Err(wrong(itself)),
    }
}

fn token_ids(items: &[Value]) -> Option<Vec<Token>> {
    items.iter().map(|item| item.as_u64().and_then(|id| Token::try_from(id).ok())).collect()
}

fn all_alike(prompts: &[Prompt]) -> bool {
    prompts.windows(2).all(|pair| std::mem::discriminant(&pair[0]) == std::mem::discriminant(&pair[1]))
}

/// Returns the tokens of each prompt, checked against `max_model_len` less `max_tokens`.
pub(super) fn tokenize(
    prompts: Vec<Prompt>,
    server: &Inner,
    max_tokens: Option<i64>,
    truncate: Option<i64>,
) -> Result<Vec<Arc<[Token]>>, ApiError> {
    let limit = i64::from(server.options.max_model_len);
    let answer = max_tokens.unwrap_or(0).max(0);
    if answer > limit {
        let message = format!("max_tokens is {answer}; the model has room for {limit} tokens");
        return Err(ApiError::raised(message).param("max_tokens"));
    }
    // How much of the room the answer takes for certain.
    let taken = match (server.release, max_tokens) {
        (Release::V21, _) => answer,
        (Release::V27, None) => 1,
        (Release::V27, Some(_)) => answer,
        // It gets what the prompt leaves.
        (Release::V32, _) => 0,
    };
    let room = usize::try_from(limit - taken).unwrap_or(0);
    let keep = truncate.map(|keep| usize::try_from(keep).unwrap_or(room));
    prompts
        .into_iter()
        .map(|prompt| {
            let mut tokens = match prompt {
                Prompt::Tokens(tokens) => tokens,
                Prompt::Text(text) => {
                    let characters = text.chars().count();
                    if keep.is_none() && characters > room * Tokenizer::LONGEST {
                        let message = format!("{characters} characters cannot be {room} tokens or fewer");
                        return Err(ApiError::raised(message).param("input_text"));
                    }
                    server.tokenizer.encode(&text)
                }
            };
            if let Some(keep) = keep {
                tokens.drain(..tokens.len().saturating_sub(keep));
            }
            check(&tokens, server.options.vocabulary, room)?;
            Ok(tokens.into())
        })
        .collect()
}

fn check(tokens: &[Token], vocabulary: u32, room: usize) -> Result<(), ApiError> {
    if tokens.is_empty() {
        return Err(ApiError::raised("prompt must not be empty"));
    }
    if let Some(token) = tokens.iter().find(|token| **token >= vocabulary) {
        let most = vocabulary.saturating_sub(1);
        return Err(ApiError::raised(format!("{token} is no token id; the greatest is {most}")));
    }
    if tokens.len() > room {
        let message = format!("the prompt has {} tokens; there is room for {room}", tokens.len());
        return Err(ApiError::raised(message).param("input_tokens"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn four_forms_are_prompts_and_mixtures_are_not() {
        let text = |text: &str| Prompt::Text(text.into());
        for (prompt, want) in [
            (json!("a"), vec![text("a")]),
            (json!(["a", "b"]), vec![text("a"), text("b")]),
            (json!([1, 2]), vec![Prompt::Tokens(vec![1, 2])]),
            (json!([[1], [2, 3]]), vec![Prompt::Tokens(vec![1]), Prompt::Tokens(vec![2, 3])]),
        ] {
            assert_eq!(read(Some(&prompt)), Ok(want));
        }
        for prompt in
            [json!(""), json!([]), json!([-1]), json!(5), json!({}), json!(["a", 5]), json!(["a", [5]])]
        {
            assert!(read(Some(&prompt)).is_err(), "{prompt}");
        }
    }
}
