"""Which parts of an item count when two items are compared: the written table, as data.

Source: the item schemas of the Responses API (unions InputItem, Item, OutputItem, ItemResource) and what clients
were seen to do to items on their way back. The rule behind each row:

- A member that no row names counts, whatever it is. A type that has no row is compared exactly.
- `id` does not count where the input schema lets a client leave it out, and counts where it is demanded: there
  the server may look things up by it. Exceptions stand at their row.
- `status: "completed"` says nothing: servers add it, clients strip it. Any other status counts.
- A null member counts as absent: typed SDKs add nulls for what the server left out, others drop them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

Shape = Literal["plain", "message", "reasoning"]

# `created_by`: who made a stored item; only the API's resources carry it.
# `internal_chat_message_metadata_passthrough`: Codex's bookkeeping, which Codex itself leaves out of its comparison.
_BOOKKEEPING: Final = frozenset({"created_by", "internal_chat_message_metadata_passthrough"})


@dataclass(frozen=True, slots=True)
class Row:
    """How items of one type are compared; everything that is not named here counts.

    `ignored` members never count; a status of "completed" counts only with `report`; a null member counts as
    absent, also inside the objects named in `nulls_inside`; strings named in `json_text` are compared as the JSON
    that they hold. `shape` names a further rule of `state.canon`.
    """

    ignored: frozenset[str] = _BOOKKEEPING
    report: bool = False
    nulls_inside: frozenset[str] = frozenset()
    json_text: frozenset[str] = frozenset()
    shape: Shape = "plain"


def _row(*ignored: str, action: bool = False, arguments: bool = False, shape: Shape = "plain") -> Row:
    return Row(
        ignored=_BOOKKEEPING.union(ignored),
        nulls_inside=frozenset({"action"} if action else ()),
        json_text=frozenset({"arguments"} if arguments else ()),
        shape=shape,
    )


TABLE: Final[Mapping[str, Row]] = MappingProxyType(
    {
        # Clients drop `phase` (Cline, pydantic-ai, LiteLLM chat); `id` is demanded only of the long form of an
        # assistant message, and the short form {role, content} means the same.
        "message": _row("id", "phase", shape="message"),
        # `id` counts only where there is no blob: then the server finds the reasoning by it.
        "reasoning": _row(shape="reasoning"),
        # The blob is the whole of it.
        "compaction": _row("id"),
        "compaction_trigger": _row(),
        # Non-null `caller`, `namespace` and `async` count. `parsed_arguments` is added by SDK parse helpers.
        "function_call": _row("id", "parsed_arguments", arguments=True),
        "function_call_output": _row("id"),
        # `input` is free text, never JSON.
        "custom_tool_call": _row("id"),
        "custom_tool_call_output": _row("id"),
        # Limits in `action` are nullable in the resource and may be left out in the input.
        "shell_call": _row("id", action=True),
        "shell_call_output": _row("id"),
        # `id` is demanded, but Codex leaves it out; the output refers to `call_id`.
        "local_shell_call": _row("id", action=True),
        # `id` names the call that this answers.
        "local_shell_call_output": _row(),
        "apply_patch_call": _row("id"),
        # `status` is demanded and is what the tool reported, so it always counts; likewise program_output.
        "apply_patch_call_output": Row(ignored=_BOOKKEEPING | {"id"}, report=True),
        "computer_call": _row(action=True),
        "computer_call_output": _row("id"),
        "tool_search_call": _row("id"),
        "tool_search_output": _row("id"),
        "additional_tools": _row("id"),
        # Hosted tools: the server keeps results behind the id, so the id counts.
        "web_search_call": _row(action=True),
        "file_search_call": _row(),
        "code_interpreter_call": _row(),
        "image_generation_call": _row(),
        "mcp_list_tools": _row(),
        "mcp_call": _row(arguments=True),
        # An approval refers to this `id`; what was approved is the exact text of `arguments`.
        "mcp_approval_request": _row(),
        "mcp_approval_response": _row("id"),
        "program": _row(),
        "program_output": Row(report=True),
        # Resolved by who knows the item; as an item it is its id.
        "item_reference": Row(ignored=frozenset(), report=True),
    }
)

# `tool_search_output` is here only when the server ran the search, `message` only when the assistant speaks.
SERVER_MADE: Final = frozenset(
    {
        "message",
        "reasoning",
        "compaction",
        "function_call",
        "custom_tool_call",
        "shell_call",
        "local_shell_call",
        "apply_patch_call",
        "computer_call",
        "tool_search_call",
        "tool_search_output",
        "web_search_call",
        "file_search_call",
        "code_interpreter_call",
        "image_generation_call",
        "mcp_list_tools",
        "mcp_call",
        "mcp_approval_request",
        "program",
        "program_output",
    }
)


def kind(item: object) -> str | None:
    """The type of a parsed item, or what an item without one stands for; None where that is in doubt.

    `{role, content}` is a message (EasyInputMessage); an `id` alone, or with a null type, is an item_reference
    (ItemReferenceParam).
    """
    if not isinstance(item, dict):
        return None
    named = item.get("type")
    if isinstance(named, str):
        return named
    if named is not None:
        return None
    if isinstance(item.get("id"), str) and len(item) == 1 + ("type" in item):
        return "item_reference"
    if "type" not in item and isinstance(item.get("role"), str) and "content" in item:
        return "message"
    return None


def is_answer(item: object) -> bool:
    """True for a parsed item that the model's side makes: assistant messages, reasoning, calls, compaction.

    False for input messages, outputs of tools that the client ran, and references (resolve them first). A
    `shell_call_output` and an `additional_tools` item may come from either side; they count as the client's. A type
    without a row counts as an answer when it is named as a call.
    """
    named = kind(item)
    if named is None or not isinstance(item, dict):
        return False
    if named == "message":
        return bool(item.get("role") == "assistant")
    if named == "tool_search_output":
        return bool(item.get("execution") == "server")
    return named in SERVER_MADE or (named not in TABLE and named.endswith("_call"))


def is_reference(item: object) -> bool:
    """True for an item that stands for another one, however much else it says."""
    return kind(item) == "item_reference"


def reference_id(item: object) -> str | None:
    """The id of the item that a parsed item_reference stands for.

    None for any other item, and for a reference that says more than its id (`is_reference` still holds): what the
    rest would mean is not known.
    """
    if not is_reference(item) or not isinstance(item, dict):
        return None
    named = item.get("id")
    if not isinstance(named, str) or any(item[key] is not None for key in item.keys() - {"type", "id"}):
        return None
    return named
