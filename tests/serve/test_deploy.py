# SPDX-License-Identifier: Apache-2.0
"""What lies in deploy/ names options and addresses that exist."""
import re
import subprocess

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
