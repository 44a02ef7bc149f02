"""`state.canon`: what clients do to an answer on its way back changes nothing; what changes a meaning does."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.canon import canon, canonical, canonical_value, difference, string_input
from state.items import TABLE
from wire.exact import Inexact, dump, parse

Item = dict[str, Any]
Change = Callable[[Item], Item]

TEXT = st.text(max_size=12)
ARGUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


def raw(item: object) -> bytes:
    return json.dumps(item, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def equal(one: object, two: object) -> bool:
    return canonical(raw(one)) == canonical(raw(two))


def message(text: str = "Done.") -> Item:
    part = {"type": "output_text", "annotations": [], "logprobs": [], "text": text}
    return {
        "id": "msg_1",
        "type": "message",
        "status": "completed",
        "content": [part],
        "phase": "final_answer",
        "role": "assistant",
    }


def call(arguments: str = '{"path": "a.py", "line": 1}') -> Item:
    return {
        "id": "fc_1",
        "type": "function_call",
        "status": "completed",
        "arguments": arguments,
        "call_id": "call_1",
        "name": "read",
    }


def custom_call(text: str = "ls -l") -> Item:
    return {
        "id": "ctc_1",
        "type": "custom_tool_call",
        "status": "completed",
        "call_id": "call_2",
        "input": text,
        "name": "sh",
    }


def shell_call(command: str = "ls") -> Item:
    action = {"commands": [command], "max_output_length": None, "timeout_ms": 1000}
    return {
        "id": "sh_1",
        "type": "shell_call",
        "status": "completed",
        "action": action,
        "call_id": "call_3",
        "environment": None,
    }


def patch_call(diff: str = "+x") -> Item:
    operation = {"type": "update_file", "diff": diff, "path": "a.py"}
    return {
        "id": "ap_1",
        "type": "apply_patch_call",
        "status": "completed",
        "call_id": "call_4",
        "operation": operation,
    }


def sealed(blob: str = "gAAA") -> Item:
    return {
        "id": "rs_1",
        "type": "reasoning",
        "encrypted_content": blob,
        "summary": [{"type": "summary_text", "text": "Look."}],
    }


def plain_reasoning(text: str = "Look.") -> Item:
    return {"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": text}]}


ANSWER = st.one_of(
    TEXT.map(message),
    ARGUMENTS.map(lambda value: call(json.dumps(value))),
    TEXT.map(custom_call),
    TEXT.map(shell_call),
    TEXT.map(patch_call),
    st.text(min_size=1, max_size=12).map(sealed),
    TEXT.map(plain_reasoning),
)


def without(item: Item, *keys: str) -> Item:
    return {key: member for key, member in item.items() if key not in keys}


def parts(item: Item, change: Change) -> Item:
    return item | {"content": [change(part) for part in item["content"]]} if item["type"] == "message" else item


def rewritten(item: Item) -> Item:
    """Arguments read and written again, with other escapes, spaces and order of keys."""
    if item["type"] != "function_call":
        return item
    return item | {"arguments": json.dumps(json.loads(item["arguments"]), separators=(",", ":"), sort_keys=True)}


def codex(item: Item) -> Item:
    added = {"content": None} if item["type"] == "reasoning" else {}
    return dict(sorted((item | added).items()))


def codex_built_in(item: Item) -> Item:
    return codex(item) | {"internal_chat_message_metadata_passthrough": {"turn_id": "t1", "create_time": 1.25}}


def cline(item: Item) -> Item:
    if item["type"] == "message":
        short = parts(item, lambda part: without(part, "annotations", "logprobs"))
        return without(short, "id", "type", "status", "phase")
    return item if item["type"] == "reasoning" else rewritten(without(item, "id", "status"))


def opencode(item: Item) -> Item:
    if item["type"] == "reasoning":
        return without(item, "id") if "encrypted_content" in item else item
    return cline(item) | ({"phase": item["phase"]} if "phase" in item else {})


def string_content(item: Item) -> Item:
    if item["type"] == "message":
        return without(item, "id", "type", "status") | {"content": item["content"][0]["text"]}
    return cline(item)


def model_dump(item: Item) -> Item:
    added: dict[str, list[str]] = {
        "reasoning": ["content", "status"],
        "function_call": ["async_", "caller", "namespace"],
        "custom_tool_call": ["async_", "caller", "namespace"],
        "shell_call": ["caller", "created_by"],
        "apply_patch_call": ["caller", "created_by"],
    }
    return item | dict.fromkeys(added.get(item["type"], []))


def model_dump_without_none(item: Item) -> Item:
    kept = {key: member for key, member in item.items() if member is not None}
    if item["type"] == "shell_call":
        kept["action"] = {key: member for key, member in item["action"].items() if member is not None}
    return kept


def parse_helper(item: Item) -> Item:
    if item["type"] == "function_call":
        return item | {"parsed_arguments": json.loads(item["arguments"])}
    return parts(item, lambda part: part | {"parsed": None})


def langchain(item: Item) -> Item:
    return parts(without(item, "status"), lambda part: without(part, "logprobs"))


def last_summary_only(item: Item) -> Item:
    return item | {"summary": item["summary"][1:], "id": "rs_9"} if "encrypted_content" in item else item


FAMILIES: list[Change] = [
    codex,
    codex_built_in,
    cline,
    opencode,
    string_content,
    model_dump,
    model_dump_without_none,
    parse_helper,
    langchain,
    last_summary_only,
]


@given(ANSWER, st.permutations(FAMILIES).map(lambda every: every[:2]), st.booleans())
def test_an_echo_in_the_shape_of_any_client_family_is_equal(item: Item, two: list[Change], twice: bool) -> None:  # noqa: FBT001
    first, second = two
    echoed = first(item)
    # A family reads what another one wrote when a proxy stands between; all need the type.
    if twice and "type" in echoed and isinstance(echoed.get("content"), list | None):
        echoed = second(echoed)
    assert equal(item, echoed)
    assert difference(raw(item), json.dumps(echoed, indent=1).encode()) is None


ANY_MEMBER: st.SearchStrategy[object] = st.sampled_from(
    [
        None,
        "",
        "completed",
        "failed",
        "{}",
        '{"a": 1}',
        '"{}"',
        [],
        {},
        1,
        True,
        [None],
        [{"type": "output_text", "text": None}],
    ]
)
MEMBERS = [
    "id",
    "status",
    "role",
    "content",
    "arguments",
    "encrypted_content",
    "summary",
    "action",
    "phase",
    "x",
    "parsed",
]
STRANGE = st.fixed_dictionaries(
    {"type": st.sampled_from([*TABLE, "new_thing"]) | st.none()},
    optional={name: ANY_MEMBER | st.sampled_from(["user", "assistant"]) for name in MEMBERS},
)


@given(ANSWER | STRANGE | STRANGE.map(lambda item: without(item, "type")))
def test_the_canonical_form_is_its_own_canonical_form(item: Item) -> None:
    form = canon(parse(raw(item)))
    assert dump(canon(form)) == dump(form)
    assert canonical(canonical(raw(item))[1:]) == canonical(raw(item)) == canonical_value(parse(raw(item)))


@given(STRANGE, STRANGE)
def test_a_difference_is_named_exactly_when_items_are_not_equal(one: Item, two: Item) -> None:
    path = difference(raw(one), raw(two))
    assert (path is None) == equal(one, two)
    assert path == difference(raw(two), raw(one))


@given(STRANGE, st.sampled_from(MEMBERS), ANY_MEMBER)
def test_any_change_to_an_unknown_type_counts(item: Item, name: str, member: object) -> None:
    one = item | {"type": "new_thing"}
    two = one | {name: member}
    same = name in one and dump(parse(raw(one[name]))) == dump(parse(raw(member)))
    assert equal(one, two) == same


UNEQUAL = {
    "text": (message("a"), message("b")),
    "text in case": (message("a"), message("A")),
    "text by white space": (message("a"), message("a ")),
    "composed and decomposed characters": (message("\u00e9"), message("e\u0301")),
    "no text and no part": (message(""), message() | {"content": []}),
    "one part and two": (message("ab"), message() | {"content": [*message("a")["content"], *message("b")["content"]]}),
    "order of parts": (
        message() | {"content": [*message("a")["content"], *message("b")["content"]]},
        message() | {"content": [*message("b")["content"], *message("a")["content"]]},
    ),
    "a refusal and a text": (message("no"), message() | {"content": [{"type": "refusal", "refusal": "no"}]}),
    "the role": (message("a"), message("a") | {"role": "user"}),
    "roles with the same string": ({"role": "user", "content": "a"}, {"role": "developer", "content": "a"}),
    "an unfinished message": (message(), message() | {"status": "incomplete"}),
    "a member that nobody knows": (message(), message() | {"tone": "dry"}),
    "a member of a part that nobody knows": (message("a"), parts(message("a"), lambda part: part | {"tone": "dry"})),
    "a cache breakpoint": (
        {"role": "user", "content": [{"type": "input_text", "text": "a"}]},
        {"role": "user", "content": [{"type": "input_text", "text": "a", "prompt_cache_breakpoint": {"type": "x"}}]},
    ),
    "annotations of a part that servers do not annotate": (
        {"role": "user", "content": [{"type": "input_text", "text": "a"}]},
        {"role": "user", "content": [{"type": "input_text", "text": "a", "annotations": []}]},
    ),
    "a role without a kind of text": (
        {"role": "critic", "content": "a"},
        {"role": "critic", "content": [{"type": "input_text", "text": "a"}]},
    ),
    "the call id": (call(), call() | {"call_id": "call_2"}),
    "no call id": (call(), without(call(), "call_id")),
    "the name": (call(), call() | {"name": "write"}),
    "the namespace": (call(), call() | {"namespace": "fs"}),
    "the caller": (call(), call() | {"caller": {"type": "program", "caller_id": "p"}}),
    "an asynchronous call": (call(), call() | {"async": True}),
    "an argument": (call('{"line": 1}'), call('{"line": 2}')),
    "an argument as text": (call('{"line": 1}'), call('{"line": "1"}')),
    "an argument as a boolean": (call('{"line": 1}'), call('{"line": true}')),
    "1 and 1.0": (call('{"line": 1}'), call('{"line": 1.0}')),
    "1.0 and 1e0": (call('{"line": 1.0}'), call('{"line": 1e0}')),
    "0 and -0": (call('{"line": 0}'), call('{"line": -0}')),
    "large integers": (call('{"n": 9007199254740993}'), call('{"n": 9007199254740992}')),
    "larger integers": (call('{"n": 18446744073709551617}'), call('{"n": 18446744073709551616}')),
    "a null argument": (call('{"path":"x","opt":null}'), call('{"path":"x"}')),
    "an empty list as an argument": (call('{"opt":[]}'), call("{}")),
    "no arguments and empty ones": (call(""), call("{}")),
    "broken arguments": (call('{"path": "a'), call('{"path":"a')),
    "a repeated key in arguments": (call('{"a":1,"a":2}'), call('{"a":2}')),
    "the order of repeated keys": (call('{"a":1,"a":2}'), call('{"a":2,"a":1}')),
    "a lone surrogate in arguments": (call('{"a":"\\ud800"}'), call('{"a": "\\ud800"}')),
    "arguments that are a string": (call('"{}"'), call("{}")),
    "arguments as an object": (call('{"a":1}'), call() | {"arguments": {"a": 1}}),
    "the input of a custom tool, though it is JSON": (custom_call('{"a":1}'), custom_call('{"a": 1}')),
    "a command": (shell_call("ls"), shell_call("ls -l")),
    "a limit": (shell_call(), shell_call() | {"action": shell_call()["action"] | {"timeout_ms": 1001}}),
    "a patch": (patch_call("+x"), patch_call("+y")),
    "what a patch tool reported": (
        {"type": "apply_patch_call_output", "call_id": "c", "status": "completed"},
        {"type": "apply_patch_call_output", "call_id": "c", "status": "failed"},
    ),
    "no report of a patch tool": (
        {"type": "apply_patch_call_output", "call_id": "c", "status": "completed"},
        {"type": "apply_patch_call_output", "call_id": "c"},
    ),
    "the output of a tool": (
        {"type": "function_call_output", "call_id": "c", "output": "1"},
        {"type": "function_call_output", "call_id": "c", "output": "1.0"},
    ),
    "the output of a tool as parts": (
        {"type": "function_call_output", "call_id": "c", "output": "1"},
        {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "1"}]},
    ),
    "the blob": (sealed("gAAA"), sealed("gAAB")),
    "no blob": (sealed(), without(sealed(), "encrypted_content")),
    "an empty blob": (sealed(""), sealed("") | {"summary": []}),
    "a summary without a blob": (plain_reasoning("a"), plain_reasoning("b")),
    "an id without a blob": (plain_reasoning(), without(plain_reasoning(), "id")),
    "open reasoning": (plain_reasoning(), plain_reasoning() | {"content": [{"type": "reasoning_text", "text": "a"}]}),
    "a compaction": (
        {"type": "compaction", "encrypted_content": "a"},
        {"type": "compaction", "encrypted_content": "b"},
    ),
    "a hosted call by its id": (
        {"type": "web_search_call", "id": "ws_1", "action": {"type": "search", "query": "a"}},
        {"type": "web_search_call", "id": "ws_2", "action": {"type": "search", "query": "a"}},
    ),
    "the text that was to be approved": (
        {"type": "mcp_approval_request", "id": "a", "server_label": "s", "name": "n", "arguments": "{}"},
        {"type": "mcp_approval_request", "id": "a", "server_label": "s", "name": "n", "arguments": "{ }"},
    ),
    "another reference": ({"type": "item_reference", "id": "rs_1"}, {"id": "rs_2"}),
    "a reference and the item": ({"type": "item_reference", "id": "rs_1"}, plain_reasoning()),
    "a type of null": ({"type": None, "role": "user", "content": "a"}, {"role": "user", "content": "a"}),
    "a null in an unknown type": ({"type": "new_thing"}, {"type": "new_thing", "id": None}),
    "an unknown type": ({"type": "new_call", "call_id": "c"}, {"type": "newer_call", "call_id": "c"}),
}


@pytest.mark.parametrize("name", UNEQUAL)
def test_what_changes_the_meaning_counts(name: str) -> None:
    one, two = UNEQUAL[name]
    assert not equal(one, two)
    assert difference(raw(one), raw(two)) is not None


EQUAL = {
    "a string and its part": (
        {"role": "system", "content": "a"},
        {"type": "message", "role": "system", "content": [{"type": "input_text", "text": "a"}]},
    ),
    "mcp arguments": (
        {"type": "mcp_call", "id": "m", "arguments": '{"b": 1, "a": 2}', "output": None},
        {"type": "mcp_call", "id": "m", "arguments": '{"a":2,"b":1}', "error": None},
    ),
    "references": ({"type": "item_reference", "id": "rs_1"}, {"type": None, "id": "rs_1"}),
    "short references": ({"type": "item_reference", "id": "rs_1"}, {"id": "rs_1"}),
    "empty open reasoning": (plain_reasoning(), plain_reasoning() | {"content": []}),
    "a compaction by another id": (
        {"type": "compaction", "id": "cmp_1", "encrypted_content": "a"},
        {"type": "compaction", "encrypted_content": "a", "id": None},
    ),
    "parsed output": (
        message(),
        parts(message(), lambda part: part | {"parsed": {"a": 1}, "annotations": [{"type": "x"}]}),
    ),
}


@pytest.mark.parametrize("name", EQUAL)
def test_what_servers_add_and_clients_rewrite_does_not_count(name: str) -> None:
    assert equal(*EQUAL[name])


@pytest.mark.parametrize(
    "bad", [b'{"type":"message","type":"message"}', b'{"a":"\\ud800"}', b'{"a":NaN}', b"nonsense", b"\xff"]
)
def test_an_item_that_cannot_be_read_exactly_equals_only_itself(bad: bytes) -> None:
    assert canonical(b" \n" + bad + b"\t") == b"R" + bad
    assert difference(bad, bad + b" ") is None
    assert difference(bad, raw(message())) == difference(bad, bad + b"}") == "$"


def test_an_unreadable_item_never_meets_a_readable_one() -> None:
    assert canonical(b"1") == b"J1"
    assert canonical(b"J1") == b"RJ1"


def test_a_value_that_is_not_json_has_no_form() -> None:
    with pytest.raises(Inexact):
        canonical_value({"type": "message", "role": "user", "content": "\ud800"})
    assert canon({"type": "function_call", "arguments": "\ud800"}) == {"type": "function_call", "arguments": "\ud800"}


@given(TEXT, st.booleans())
def test_a_string_input_is_a_user_message(text: str, ascii_only: bool) -> None:  # noqa: FBT001
    made = string_input(b" " + json.dumps(text, ensure_ascii=ascii_only).encode() + b"\n")
    assert canonical(made) == canonical(raw({"role": "user", "content": text}))


@pytest.mark.parametrize("other", [b"", b'"', b"[]", b"null", b'"a'])
def test_only_a_string_stands_for_a_user_message(other: bytes) -> None:
    with pytest.raises(ValueError, match="no string"):
        string_input(other)


@pytest.mark.parametrize(
    ("one", "two", "path"),
    [
        (message("secret"), message("hidden"), "$.content[0].text"),
        (message(), message() | {"content": []}, "$.content[0]"),
        (message(), message() | {"tone": 1}, "$.tone"),
        (call("{}"), call("[]"), "$.arguments"),
        ({"type": "x", "a b": 1}, {"type": "x", "a b": True}, '$["a b"]'),
        ([1, {}], [1, []], "$[1]"),
        (1, 2, "$"),
    ],
)
def test_a_difference_is_a_path_without_values(one: object, two: object, path: str) -> None:
    assert difference(raw(one), raw(two)) == path
