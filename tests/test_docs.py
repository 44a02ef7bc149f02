"""The pages under docs/ that repeat what the code says, held to it."""

from __future__ import annotations

import re
from pathlib import Path

from proxy.dialect import DELTAWIRE, NAMED
from proxy.settings import MIB, MINUTE
from state.envelope import POLICY, Policy
from state.items import TABLE
from telemetry import reasons, server_metrics
from upstream.scripted.catalogue import TURNS
from upstream.scripted.handshakes import HANDSHAKES

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


def _rows(text: str) -> dict[str, str]:
    return dict(re.findall(r"^\| `([a-z_]+)` \| (.*) \|$", text, re.MULTILINE))


def test_every_code_stands_on_the_page_of_codes_with_its_meaning() -> None:
    page = (DOCS / "reasons.md").read_text()
    for codes in (
        reasons.TRANSPORTS,
        reasons.REASONS,
        reasons.SIDECAR_ERRORS,
        reasons.RETRY_CAUSES,
        reasons.DIALS,
        reasons.LINK_ENDS,
        reasons.STATE_OPERATIONS,
    ):
        for code, meaning in codes.items():
            assert f"| `{code}` | {meaning} |" in page


def test_no_code_stands_on_the_page_that_the_product_does_not_know() -> None:
    known = (
        reasons.TRANSPORTS.keys()
        | reasons.REASONS.keys()
        | reasons.SIDECAR_ERRORS.keys()
        | reasons.RETRY_CAUSES.keys()
        | reasons.DIALS.keys()
        | reasons.LINK_ENDS.keys()
        | reasons.STATE_OPERATIONS.keys()
    )
    assert set(_rows((DOCS / "reasons.md").read_text())) <= known


def test_every_row_of_the_table_of_equality_is_documented_with_what_it_ignores() -> None:
    rows = _rows((DOCS / "equality.md").read_text())
    assert rows.keys() == TABLE.keys()
    for name, row in TABLE.items():
        ignored, _, _ = rows[name].partition(" | ")
        everywhere = {"created_by", "internal_chat_message_metadata_passthrough"}
        assert set(re.findall(r"`([a-z_]+)`", ignored)) == row.ignored - everywhere


def test_every_policy_of_the_envelope_is_documented() -> None:
    page = (DOCS / "equality.md").read_text()
    for policy, mark in ((Policy.FREE, "**Free**"), (Policy.CONTEXT, "**Context**")):
        line = next(line for line in page.splitlines() if mark in line)
        listed = line.split(". Our own")[0]
        assert set(re.findall(r"`([a-z_]+)`", listed)) == {name for name, found in POLICY.items() if found is policy}


def test_every_label_of_the_servers_metrics_is_documented_with_its_meaning() -> None:
    page = (DOCS / "server-metrics.md").read_text()
    known = server_metrics
    for codes in (
        known.TRANSPORTS,
        known.STATUSES,
        known.TOKENS,
        known.ENGINE_FAILURES,
        known.SCOPES,
        known.LIMITS,
        known.SINKS,
        known.READS,
    ):
        for code, meaning in codes.items():
            assert f"| `{code}` | {meaning} |" in page


def test_every_fault_stands_on_its_page_as_the_catalogue_tells_it_and_no_other_does() -> None:
    rows = re.findall(r"^\| `([a-z0-9-]+)` \| (.*) \| (.*) \| (.*) \|$", (DOCS / "faults.md").read_text(), re.MULTILINE)
    turns = [(name, fault.wire, fault.stands_for, fault.seen) for name, fault in TURNS.items()]
    assert rows == turns + [(name, fault.wire, fault.stands_for, fault.seen) for name, fault in HANDSHAKES.items()]


def test_relative_links_in_the_documentation_lead_somewhere() -> None:
    pages = [*ROOT.glob("*.md"), *DOCS.glob("*.md"), *(ROOT / "helm").glob("*.md")]
    broken = [
        f"{page.name}: {target}"
        for page in pages
        for target in re.findall(r"\]\(([^)#\s]+)\)", page.read_text())
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert not broken


def test_the_commands_that_the_readme_names_are_targets_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make ([a-z-]+)", (ROOT / "README.md").read_text(), re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)


def test_every_kind_of_upstream_is_documented_with_what_is_expected_of_it() -> None:
    page = (DOCS / "upstreams.md").read_text()
    for one in (*NAMED.values(), DELTAWIRE):
        row = next(line for line in page.splitlines() if line.startswith(f"| `{one.name}` |"))
        _, _, _, age, frame, changes, elsewhere, _ = (cell.strip() for cell in row.split("|"))
        assert (age, frame) == (f"{one.max_age / MINUTE:.0f} min", f"{one.max_frame // MIB} MiB")
        listed = set(re.findall(r"`([a-z_]+)`", changes))
        context = {name for name, policy in POLICY.items() if policy is Policy.CONTEXT}
        assert (context - listed if changes.startswith("all but") else listed) == set(one.honoured)
        assert (elsewhere == "yes") == one.keeps


def test_every_test_that_the_page_of_failures_names_is_there_and_every_failure_has_one() -> None:
    rows = [line.split(" | ") for line in (DOCS / "field-failures.md").read_text().splitlines() if " | " in line]
    failures = [row for row in rows if row[0] != "| failure"]
    assert len({row[0] for row in failures}) == len(failures) > 90
    for _, reported, what, held in failures:
        assert re.fullmatch(r"[\w.-]+(/[\w.-]+)?(#\d+)?(, [\w.-]+(/[\w.-]+)?(#\d+)?)*", reported), reported
        assert what.endswith(".")
        named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", held)
        assert named
        for path, name in named:
            assert re.search(rf"^(async )?def {name}\(", (ROOT / path).read_text(), re.MULTILINE), (path, name)
