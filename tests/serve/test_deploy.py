# SPDX-License-Identifier: Apache-2.0
"""What lies in deploy/ names options and addresses that exist."""
import importlib
import importlib.util
import json
import pathlib
import re
import shutil
import subprocess
import sys
import types

import pytest

from conftest import BIN, ROOT


def test_options_of_the_manifests_exist():
    usage = subprocess.run([str(BIN / "camshaft"), "serve", "--help"], capture_output=True, text=True).stdout
    known = set(re.findall(r"--[a-z][a-z-]+", usage))
    manifest = (ROOT / "deploy/kserve/serving_runtime.yaml").read_text()
    image = (ROOT / "deploy/Dockerfile").read_text()
    given = re.findall(r"--[a-z][a-z-]+", re.search(r"args: \[(.*)\]", manifest)[1])
    given += re.findall(r"--[a-z][a-z-]+", re.search(r"ENTRYPOINT \[(.*)\]", image)[1])
    assert {"--http", "--grpc", "--host"} <= set(given) <= known


def test_probes_are_answered(server):
    manifest = (ROOT / "deploy/kserve/serving_runtime.yaml").read_text()
    probes = re.findall(r"path: (/v2/\S+)", manifest)
    assert len(probes) == 2 and all(server.ask("GET", path).status == 200 for path in probes)


def kserve_models():
    """KServe's own classes of its resources, without the server that their package is about."""
    pytest.importorskip("kubernetes", reason="no kubernetes here: the manifest is not held to KServe's types")
    found = importlib.util.find_spec("kserve")
    if found is None:
        pytest.skip("no kserve here: the manifest is not held to its types")
    package = types.ModuleType("kserve")
    package.__path__ = list(found.submodule_search_locations)
    sys.modules["kserve"] = package
    return importlib.import_module("kserve.models")


def class_of(name, models):
    import kubernetes.client
    return getattr(models, name, None) or getattr(kubernetes.client, name, None)


def misfits(value, kind, models, place="manifest"):
    """What of a manifest is not as its type has it: unknown fields, values of other types, fields that must be there."""
    if match := re.fullmatch(r"[Ll]ist\[(.*)\]", kind):
        if not isinstance(value, list):
            return [f"{place} is no list"]
        return [text for k, item in enumerate(value) for text in misfits(item, match[1], models, f"{place}[{k}]")]
    if match := re.fullmatch(r"[Dd]ict[(\[]str, (.*)[)\]]", kind):
        if not isinstance(value, dict):
            return [f"{place} is no mapping"]
        return [text for key, item in value.items() for text in misfits(item, match[1], models, f"{place}.{key}")]
    if kind in ("str", "int", "bool", "float"):
        return [] if type(value).__name__ == kind else [f"{place} is {value!r}, no {kind}"]
    if kind in ("object", "IntOrString", "file", "date", "datetime") or (cls := class_of(kind.split(".")[-1], models)) is None:
        return []
    if not isinstance(value, dict):
        return [f"{place} is {value!r}, no {kind}"]
    names = {json_name: attribute for attribute, json_name in cls.attribute_map.items()}
    found = [f"{place}.{key} is no field of {kind}" for key in value if key not in names]
    for key in value.keys() & names.keys():
        found += misfits(value[key], cls.openapi_types[names[key]], models, f"{place}.{key}")
    try:  # the classes refuse to be without what must be there
        cls(**{names[key]: value[key] for key in value if key in names})
    except (ValueError, TypeError) as error:
        found.append(f"{place}: {error}")
    return found


def test_the_manifest_is_a_serving_runtime():
    models = kserve_models()
    yaml = pytest.importorskip("yaml")
    text = (ROOT / "deploy/kserve/serving_runtime.yaml").read_text()
    manifest = yaml.safe_load(text)
    assert (manifest["apiVersion"], manifest["kind"]) == ("serving.kserve.io/v1alpha1", "ServingRuntime")
    assert misfits(manifest, "V1alpha1ServingRuntime", models) == []
    # It would notice.
    for change, word in [(("containerPort: 8080", "containerPort: eight"), "containerPort"), (("supportedModelFormats", "modelFormats"), "modelFormats is no field"),
                         (("path: /v2/health/live", "route: /v2/health/live"), "route is no field"), (("name: kserve-container", "title: x"), "name")]:
        assert any(word in found for found in misfits(yaml.safe_load(text.replace(*change)), "V1alpha1ServingRuntime", models)), word


def instructions(text):
    """Of a Dockerfile: (INSTRUCTION, its words), lines joined."""
    lines = re.sub(r"\\\n", " ", re.sub(r"(?m)^#.*\n", "", text)).splitlines()
    return [tuple(line.split(None, 1)) for line in lines if line.strip()]


def test_the_dockerfile_is_well_formed():
    """What a linter would ask for, as far as it matters here."""
    found = instructions((ROOT / "deploy/Dockerfile").read_text())
    known = {"FROM", "COPY", "WORKDIR", "RUN", "ENV", "USER", "VOLUME", "EXPOSE", "ENTRYPOINT", "CMD"}
    assert found[0][0] == "FROM" and {name for name, _ in found} <= known
    stages = [words for name, words in found if name == "FROM"]
    assert all(re.fullmatch(r"debian:[0-9]+(-slim)?( AS \w+)?", words) for words in stages), "a pinned release for each stage"
    names = [name for name, _ in found]
    last = found[len(names) - 1 - names[::-1].index("FROM"):]
    assert [name for name, _ in last].count("ENTRYPOINT") == 1 and [name for name, _ in last].count("CMD") == 1
    assert "USER" in {name for name, _ in last}, "not root"
    for name, words in last:
        if name in ("ENTRYPOINT", "CMD"):
            assert isinstance(json.loads(words), list), "the exec form, so that SIGTERM arrives"
        if name == "RUN" and "apt-get install" in words:
            assert "apt-get update" in words and "--no-install-recommends" in words and "rm -rf /var/lib/apt/lists" in words
        if name == "COPY":
            assert re.match(r"--from=(\w+) ", words)[1] in " ".join(stages)


def with_dependencies(packages):
    """What apt installs with them, as far as it is installed here."""
    known, new = set(), set(packages)
    while new:
        known |= new
        text = subprocess.run(["dpkg-query", "--show", "-f", "${Depends},${Pre-Depends},", *sorted(new)], capture_output=True, text=True).stdout
        new = {re.split(r"[ (:]", one.strip())[0] for one in re.split(r"[,|]", text) if one.strip()} - known
    return known


def test_the_image_has_the_libraries_that_the_programs_load():
    if shutil.which("dpkg-query") is None or 'VERSION_ID="12"' not in pathlib.Path("/etc/os-release").read_text():
        pytest.skip("the image is of Debian 12, this is not")
    image = (ROOT / "deploy/Dockerfile").read_text()
    installed = with_dependencies(re.findall(r"\blib[a-z0-9+.-]+\b\+*[0-9.]*|zlib1g", re.search(r"--no-install-recommends \\\n(.*?)&&", image, re.S)[1])) | {"libstdc++6"}
    loaded = set()
    for program in ("camshaft", "camexec", "camshaft-serve"):
        text = subprocess.run(["readelf", "-d", str(BIN / program)], capture_output=True, text=True).stdout
        loaded |= {library for library in re.findall(r"\(NEEDED\).*\[(.*)\]", text) if not library.startswith("libcamshaft")}
    assert loaded
    found = subprocess.run(["dpkg-query", "--search", *(f"*/{library}" for library in loaded)], capture_output=True, text=True).stdout
    for library in loaded:
        owners = {line.split(":")[0] for line in found.splitlines() if line.endswith("/" + library)}
        assert not owners or owners & installed, f"{library} of {owners} is not in the image"
