"""Where Resources are: locations of the three protocols, and what the conversation has read of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import jsonschema_rs
import pytest

from bundler.errors import BundlerError
from bundler.protocol.canonical import Json
from bundler.protocol.canonical import sha256 as digest_of
from bundler.protocol.schemas import schema_path
from bundler.runtime.locations import (
    FileLocation,
    GraphActionLocation,
    HostActionLocation,
    Location,
    Receipts,
    read_receipts,
)
from bundler.runtime.open import open_provider
from bundler.runtime.provider import OpenedProvider

from ..builders import build_from, minimal, with_skill, write_out
from ..views import RESOURCES, REVISION, with_command, write_view

LOCATION = jsonschema_rs.Draft202012Validator(json.loads(schema_path("resource-location").read_bytes()))
OTHER = "sha256:" + "6" * 64


@pytest.fixture(params=["source", "bundle"])
def opened(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[OpenedProvider]:
    root = write_view(tmp_path, with_command("true"))
    if request.param == "bundle":
        build_from(root, tmp_path / "bundle")
        root = tmp_path / "bundle"
    with open_provider(root) as opened:
        yield opened


def located(opened: OpenedProvider, resource: str, revision: str | None = None) -> dict[str, Json]:
    """The protocol's object, which satisfies its schema."""
    value = opened.locate(resource, revision=revision).to_json()
    assert [error.message for error in LOCATION.iter_errors(value)] == []
    return value


def test_a_file(opened: OpenedProvider) -> None:
    expected = {
        "schema": "agent-graph.resource-location.file.v1",
        "id": "guide",
        "kind": "procedure",
        "mediaType": "text/markdown",
        "digest": digest_of(RESOURCES["guide.md"].encode()),
        "filePath": f"{opened.root}/guide.md",
    }
    assert located(opened, "guide") == expected
    assert located(opened, "guide.md") == expected
    assert located(opened, "./guide.md", REVISION) == expected  # a file is the same on every Route
    assert Path(str(expected["filePath"])).is_file()


def test_the_digest_of_a_descriptor_is_that_of_its_content(tmp_path: Path) -> None:
    files = with_command("true")
    files["guide.md"] = "---\nid: other\nkind: procedure\n---\n"
    files["graphs/main.yaml"] = str(files["graphs/main.yaml"]).replace("guide.md", "resources/plan.yaml")
    files["resources/plan.yaml"] = (
        "schema: agent-graph.resource.file.v1\nid: plan\nkind: template\nmediaType: text/csv\npath: data/plan.csv\n"
    )
    files["data/plan.csv"] = b"a,b\n\xff\n"
    with open_provider(write_view(tmp_path, files)) as opened:
        value = located(opened, "plan")
    assert value["digest"] == digest_of(b"a,b\n\xff\n")
    assert value["filePath"] == str(tmp_path / "provider" / "data" / "plan.csv")


def test_what_an_action_makes(opened: OpenedProvider) -> None:
    expected = {
        "schema": "agent-graph.resource-location.graph-action.v1",
        "id": "view",
        "kind": "context-view",
        "mediaType": "text/plain",
        "materialize": {"resourceId": "view"},
    }
    assert located(opened, "view") == expected
    assert located(opened, "resources/view.yaml", REVISION) == {**expected, "revision": REVISION}


def test_what_a_host_makes(opened: OpenedProvider) -> None:
    assert located(opened, "made", REVISION) == {
        "schema": "agent-graph.resource-location.host-action.v1",
        "id": "made",
        "kind": "context-view",
        "mediaType": "application/json",
        "revision": REVISION,
        "materialize": {
            "handler": "acme.index",
            "input": {"schema": "acme.request/v1", "value": {"query": "code", "depth": 2}},
            "output_schema": "acme.answer/v1",
        },
    }
    with pytest.raises(BundlerError) as raised:
        opened.locate("made")
    assert raised.value.code == "revision-invalid"


@pytest.mark.parametrize("name", ["guied", "/guide.md", "../guide.md", "", "actions/view.yaml"])
def test_what_is_no_resource(opened: OpenedProvider, name: str) -> None:
    with pytest.raises(BundlerError) as raised:
        opened.locate(name)
    assert raised.value.code == "resource-missing"
    assert ("did you mean `guide`" in raised.value.message) == (name == "guied")


def test_an_id_comes_before_a_path(tmp_path: Path) -> None:
    files = with_command("true")
    files["resources/view.yaml"] = str(files["resources/view.yaml"]).replace("id: view", "id: guide.md")
    with open_provider(write_view(tmp_path, files)) as opened:
        assert opened.locate("guide.md").id == "guide.md"
        assert opened.locate("./guide.md").id == "guide"


def test_a_skill(tmp_path: Path) -> None:
    with open_provider(write_out(with_skill(), tmp_path / "provider")) as opened:
        location = opened.locator.skill("skills/s/SKILL.md")
    assert (location.id, location.kind, location.media_type) == ("skill.s", "skill", "text/markdown")
    assert LOCATION.is_valid(location.to_json())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# no front matter\n", "can't be used: `skills/s/SKILL.md` does not begin"),
        ("---\ndescription: d\n---\n", "has no `name` text"),
        ("---\nname: 3\n---\n", "has no `name` text"),
        ("---\nname: ''\n---\n", "has no `name` text"),
    ],
)
def test_a_skill_that_no_route_could_name(tmp_path: Path, text: str, message: str) -> None:
    files = {**with_skill(), "skills/s/SKILL.md": text}
    with open_provider(write_out(files, tmp_path / "provider")) as opened, pytest.raises(BundlerError) as raised:
        opened.locator.skill("skills/s/SKILL.md")
    assert raised.value.code == "skill-frontmatter-unusable"
    assert message in raised.value.message


def test_the_schemas_of_an_action(opened: OpenedProvider) -> None:
    actions = opened.provider.actions
    found = opened.locator.schema(actions["actions/made.yaml"], "output")
    assert found is not None
    assert (found.id, found.media_type) == ("schema.made.output", "application/schema+json")
    assert found.digest == digest_of(RESOURCES["schemas/answer.json"].encode())
    assert opened.locator.schema(actions["actions/view.yaml"], "input") is None


# --- what was read ----------------------------------------------------------------------------------------

FILE = FileLocation(id="guide", kind="procedure", media_type="text/markdown", digest=REVISION, file_path="/p/guide.md")
VIEW = GraphActionLocation(id="view", kind="context-view", media_type="text/plain", revision=REVISION)
MADE = HostActionLocation(
    id="made",
    kind="context-view",
    media_type="text/plain",
    revision=REVISION,
    handler="h",
    input_schema="a/v1",
    input={},
    output_schema="b/v1",
)


def receipts(*given: dict[str, str], provider: str = "acme/demo") -> Receipts:
    value = {"schema": "agent-graph.resource-read-receipts.v1", "provider": provider, "receipts": list(given)}
    return read_receipts(value, "acme/demo")


@pytest.mark.parametrize(
    ("location", "receipt", "state"),
    [
        (FILE, {"id": "guide", "digest": REVISION}, "current"),
        (FILE, {"id": "guide", "digest": REVISION, "revision": OTHER}, "current"),
        (FILE, {"id": "guide", "digest": OTHER}, "read-required"),
        (FILE, {"id": "guide", "digest": OTHER, "revision": REVISION}, "read-required"),
        (FILE, {"id": "other", "digest": REVISION}, "read-required"),
        (VIEW, {"id": "view", "digest": OTHER, "revision": REVISION}, "current"),
        (VIEW, {"id": "view", "digest": REVISION, "revision": OTHER}, "read-required"),
        (VIEW, {"id": "view", "digest": REVISION}, "read-required"),
        (MADE, {"id": "made", "digest": OTHER, "revision": REVISION}, "current"),
        (MADE, {"id": "view", "digest": OTHER, "revision": REVISION}, "read-required"),
    ],
)
def test_a_file_is_known_by_its_digest_what_is_made_by_the_revision(
    location: Location, receipt: dict[str, str], state: str
) -> None:
    marked = receipts(receipt).marked(location)
    assert marked.read_state == state
    assert LOCATION.is_valid(marked.to_json())
    assert marked.to_json() == {**location.to_json(), "readState": state}
    assert location.read_state is None


def test_without_receipts_all_is_to_be_read() -> None:
    assert [Receipts().marked(each).read_state for each in (FILE, VIEW, MADE)] == ["read-required"] * 3
    assert receipts() == Receipts()


def test_receipts_of_another_provider() -> None:
    with pytest.raises(BundlerError) as raised:
        receipts(provider="acme/other")
    assert raised.value.code == "resource-receipts-provider-mismatch"
    assert "`acme/other`, not of `acme/demo`" in raised.value.message


@pytest.mark.parametrize(
    "receipt",
    [{"id": "", "digest": OTHER}, {"id": "x"}, {"id": "x", "digest": "x"}, {"id": "x", "digest": OTHER, "at": "now"}],
)
def test_receipts_that_are_none(receipt: dict[str, str]) -> None:
    with pytest.raises(BundlerError) as raised:
        receipts(receipt)
    assert raised.value.code == "schema-invalid"


def test_a_provider_without_resources(tmp_path: Path) -> None:
    with open_provider(write_out(minimal(), tmp_path / "provider")) as opened, pytest.raises(BundlerError) as raised:
        opened.locate("guide")
    assert raised.value.message == "`acme/demo` has no Resource `guide`"
