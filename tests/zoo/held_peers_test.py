"""bench/held_peers.py on a library of our own: its CPUID instructions are replaced, and answered without what is above AVX2."""

import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import held_peers  # noqa: E402

pytestmark = pytest.mark.skipif(not shutil.which("objdump") or not shutil.which("gcc"), reason="needs gcc and objdump")

ASKING = r"""
#include <cpuid.h>
#include <stdio.h>
void ask(void) {
  unsigned a, b, c, d;
  __cpuid_count(7, 0, a, b, c, d);
  unsigned avx2 = b >> 5 & 1, avx512 = b >> 16 & 1, amx = d >> 24 & 1;
  __cpuid_count(7, 1, a, b, c, d);
  unsigned vnni = a >> 4 & 1;
  __cpuid_count(0, 0, a, b, c, d);
  printf("%u %u %u %u %.4s\n", avx2, avx512, amx, vnni, (char*)&b);
}
"""
NOT_CPUID = "const unsigned char table[4] = {0x0f, 0xa2, 0x0f, 0xa2};"  # the same bytes where they are data


@pytest.fixture
def library(tmp_path):
    (tmp_path / "asking.c").write_text(ASKING + NOT_CPUID)
    (tmp_path / "main.c").write_text("void ask(void); int main(void) { ask(); return 0; }")
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", "libasking.so", "asking.c"], cwd=tmp_path, check=True)
    subprocess.run(["gcc", "-o", "main", "main.c", "-L.", "-lasking", "-Wl,-rpath,$ORIGIN"], cwd=tmp_path, check=True)
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", "answer.so", str(ROOT / "bench" / "held_peers.c")], cwd=tmp_path, check=True)
    return tmp_path


def answer(folder, **environment):
    return subprocess.run([str(folder / "main")], env=environment, capture_output=True, text=True)


def test_features_above_avx2_are_hidden_and_the_rest_is_the_processors(library):
    avx2, _, _, _, vendor = answer(library).stdout.split()
    assert held_peers.replace_cpuid(library / "libasking.so") == 3
    assert answer(library, LD_PRELOAD=str(library / "answer.so")).stdout.split() == [avx2, "0", "0", "0", vendor]


def test_data_that_looks_like_the_instruction_stays(library):
    held_peers.replace_cpuid(library / "libasking.so")
    assert b"\x0f\xa2\x0f\xa2" in (library / "libasking.so").read_bytes()


def test_without_the_answer_the_copy_fails_instead_of_lying(library):
    held_peers.replace_cpuid(library / "libasking.so")
    assert answer(library).returncode < 0


def test_a_library_that_does_not_ask_is_left_alone(library):
    before = (library / "answer.so").read_bytes()
    (library / "plain.c").write_text("int one(void) { return 1; }")
    subprocess.run(["gcc", "-shared", "-fPIC", "-nostdlib", "-o", "plain.so", "plain.c"], cwd=library, check=True)
    assert held_peers.replace_cpuid(library / "plain.so") == 0
    assert (library / "answer.so").read_bytes() == before
