import re

from opentelemetry.semconv.attributes import error_attributes, http_attributes

from telemetry import semconv

NAMES = {key: value for key, value in vars(semconv).items() if key.startswith(("GEN_AI_", "HTTP_", "ERROR_"))}


def test_http_and_error_names_are_those_of_the_stable_conventions() -> None:
    assert semconv.HTTP_REQUEST_METHOD == http_attributes.HTTP_REQUEST_METHOD
    assert semconv.HTTP_RESPONSE_STATUS_CODE == http_attributes.HTTP_RESPONSE_STATUS_CODE
    assert semconv.HTTP_ROUTE == http_attributes.HTTP_ROUTE
    assert semconv.ERROR_TYPE == error_attributes.ERROR_TYPE


def test_every_constant_is_named_like_its_attribute() -> None:
    assert NAMES
    for key, value in NAMES.items():
        assert key == value.replace(".", "_").upper()


def test_the_names_in_development_carry_one_version() -> None:
    assert re.fullmatch(r"semantic-conventions-genai \d+\.\d+\.\d+", semconv.VERSION)


def test_no_own_field_enters_a_name_space_of_the_conventions() -> None:
    assert not semconv.DELTAWIRE_PREFIX.startswith(("gen_ai.", "http.", "error."))
