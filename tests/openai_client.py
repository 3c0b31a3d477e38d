"""Checks a running router with the public `openai` package; exits with 1 on a wrong answer.

    python3 -m venv venv && venv/bin/pip install openai
    venv/bin/python tests/openai_client.py http://127.0.0.1:8080/v1 MODEL
"""

import sys

from openai import NotFoundError, OpenAI

base_url, model = sys.argv[1:3]
client = OpenAI(base_url=base_url, api_key="none", timeout=60)
messages = [{"role": "user", "content": "Say hello."}]


def check(what, holds):
    print(f"{'ok  ' if holds else 'FAIL'} {what}")
    if not holds:
        sys.exit(1)


answer = client.completions.create(model=model, prompt="Hello", max_tokens=8)
check("a completion ends by its length", answer.choices[0].finish_reason in ("length", "stop"))
check("a completion counts its tokens", 1 <= answer.usage.completion_tokens <= 8)

answer = client.chat.completions.create(model=model, messages=messages, max_tokens=8)
check("a chat answer is the assistant's", answer.choices[0].message.role == "assistant")
check("a chat answer counts its tokens", 1 <= answer.usage.completion_tokens <= 8)

events = list(client.completions.create(model=model, prompt="Hello", max_tokens=8, stream=True))
check("a streamed completion comes in pieces", len(events) > 1)
check("a streamed completion says why it ends", events[-1].choices[0].finish_reason in ("length", "stop"))

options = {"include_usage": True}
events = list(client.chat.completions.create(
    model=model, messages=messages, max_tokens=8, stream=True, stream_options=options))
check("a streamed chat begins with its role", events[0].choices[0].delta.role == "assistant")
check("a streamed chat ends with its usage", 1 <= events[-1].usage.completion_tokens <= 8)

try:
    client.completions.create(model="no-such-model", prompt="Hello", max_tokens=1)
    check("an unknown model is refused", False)
except NotFoundError:
    check("an unknown model is refused", True)
check("the list of models has the model", model in [m.id for m in client.models.list()])
