from dataclasses import FrozenInstanceError, fields

import pytest

from upstream.kept.content import CACHING
from upstream.settings import UpstreamSettings
from upstream.stages.style import Style


def test_settings_cannot_be_changed_once_made() -> None:
    with pytest.raises(FrozenInstanceError):
        UpstreamSettings().port = 1  # type: ignore[misc]


def test_every_setting_has_a_default_of_a_plain_type() -> None:
    defaults = [getattr(UpstreamSettings(), field.name) for field in fields(UpstreamSettings)]

    assert {type(value) for value in defaults} <= {str, int, float, tuple}


def test_the_defaults_offer_both_extensions_and_an_hour_of_connection() -> None:
    settings = UpstreamSettings()

    assert settings.features == ("envelope", "append", "context")
    assert settings.connection_max_age == 3600.0
    assert settings.max_body == 128 * 1024 * 1024


def test_open_responses_has_no_lanes_ends_its_streams_and_codes_its_errors() -> None:
    assert UpstreamSettings().multiplexes
    assert UpstreamSettings().compresses
    assert UpstreamSettings().stream_end == b""
    assert not UpstreamSettings(lanes="off").multiplexes
    assert not UpstreamSettings(compression="off").compresses
    strict = UpstreamSettings(dialect="open-responses")
    assert not strict.multiplexes
    assert strict.codes_every_error
    assert not UpstreamSettings().codes_every_error
    assert strict.stream_end == b"data: [DONE]\n\n"


def test_conversations_are_kept_and_rendered_as_the_stages_do_by_themselves() -> None:
    settings = UpstreamSettings()

    assert Style(settings.template, settings.vocabulary) == Style()
    assert settings.caching == CACHING[-1]
    assert [UpstreamSettings(caching=one).has_websockets for one in CACHING] == [False, False, True]
