"""Attribute names of spans.

The `gen_ai.*` names are still in development and live in no stable Python package, so they stand here, at the one
version below; the HTTP and error names are stable (semantic-conventions 1.23 and later).
"""

from typing import Final

VERSION: Final = "semantic-conventions-genai 0.1.0"

GEN_AI_OPERATION_NAME: Final = "gen_ai.operation.name"
GEN_AI_PROVIDER_NAME: Final = "gen_ai.provider.name"
GEN_AI_REQUEST_MODEL: Final = "gen_ai.request.model"
GEN_AI_REQUEST_STREAM: Final = "gen_ai.request.stream"
GEN_AI_RESPONSE_ID: Final = "gen_ai.response.id"
GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
GEN_AI_USAGE_INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
GEN_AI_USAGE_OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"

OPERATION_CHAT: Final = "chat"
PROVIDER_OPENAI: Final = "openai"

HTTP_REQUEST_METHOD: Final = "http.request.method"
HTTP_RESPONSE_STATUS_CODE: Final = "http.response.status_code"
HTTP_ROUTE: Final = "http.route"
ERROR_TYPE: Final = "error.type"

DELTAWIRE_PREFIX: Final = "deltawire."
"""Before the name of a field of `TurnRecord` that has no attribute in the conventions."""
