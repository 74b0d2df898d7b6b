"""Holds the include directions of src/ to the DEPENDS lists of src/CMakeLists.txt."""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
SRC = ROOT / "src"
KERNELS_DEPENDS = {"ir", "base"}  # src/kernels/CMakeLists.txt builds it by hand


def allowed_directions():
    """Folder -> the folders it may include from, following DEPENDS transitively."""
    text = (SRC / "CMakeLists.txt").read_text()
    direct = {"kernels": set(KERNELS_DEPENDS)}
    for name, rest in re.findall(r"camshaft_folder\((\w+)([^)]*)\)", text):
        match = re.search(r"DEPENDS\s+((?:[a-z_]+\s*)+)", rest)
        direct[name] = set(match.group(1).split()) if match else set()
    reachable = {}

    def reach(name):
        if name not in reachable:
            reachable[name] = {name}
            for other in direct[name]:
                reachable[name] |= reach(other)
        return reachable[name]

    for name in direct:
        reach(name)
    return reachable


def test_folders_include_only_what_cmake_allows():
    allowed = allowed_directions()
    violations = []
    for path in sorted(SRC.rglob("*.h")) + sorted(SRC.rglob("*.cpp")):
        folder = path.relative_to(SRC).parts[0]
        for included in re.findall(r'^#include "([^"]+)"', path.read_text(), re.M):
            target = included.split("/")[0]
            if target in allowed and folder in allowed and target not in allowed[folder]:
                # A test may look at more than its subject: it links what its program links.
                if not path.name.endswith("_test.cpp"):
                    violations.append(f"{path.relative_to(ROOT)} includes {included}")
    assert not violations, "\n".join(violations)


def test_no_cycles():
    allowed = allowed_directions()
    cycles = [(a, b) for a in allowed for b in allowed[a] if a != b and a in allowed.get(b, ())]
    assert not cycles


def test_every_kernel_family_has_its_file():
    rows = re.findall(r"X\((\w+)\)", (SRC / "kernels/vector/families.h").read_text())
    rows = [row for row in rows if row != "X"]
    missing = [row for row in rows if len(list(SRC.glob(f"kernels/vector/*/{row}.cpp"))) != 1]
    assert not missing


# So that another instruction set is a folder there.
def test_instruction_sets_are_asked_for_in_simd():
    asking = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in sorted(SRC.rglob("*.h")) + sorted(SRC.rglob("*.cpp"))
        if "simd" not in path.parts
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if "CAMSHAFT_TARGET_" in line
    ]
    assert not asking, "\n".join(asking)


def test_every_instruction_set_supplies_the_same_headers():
    sets = sorted(path for path in (SRC / "kernels/simd").iterdir() if path.is_dir())
    supplied = {path.name: {header.name for header in path.glob("*.h")} for path in sets}
    assert len(supplied) >= 3
    assert len(set(map(frozenset, supplied.values()))) == 1, supplied


# What would change a graph behind the Rewriter's back: links and names by the Graph's own functions,
# attributes and what tensors know by assignment.
PAST_THE_REWRITER = re.compile(
    r"\b(?:graph|graph_|body)\.(?:add_\w+|set_\w+|append_input|remove_layer|move_before|rename)\("
    r"|\b(?:layer|tensor|producer|product|window|made|inside|codes|constant|copy|result|output)"
    r"->(?:kind|name|attrs|type|shape|has_rank|constant|facts(?:\.\w+)*) [-+*]?= "
    r"|->as<\w+>\(\)(?:\.\w+)* [-+*]?= "
    r"|\*(?:program_of|epilogue_of)\([^)]*\) = "
    r"|->(?:inputs|outputs)\[[^\]]*\] = ")


def test_passes_edit_through_the_rewriter():
    found = [f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
             for path in sorted(SRC.glob("passes/*.cpp")) if not path.name.endswith("_test.cpp")
             for number, line in enumerate(path.read_text().splitlines(), 1) if PAST_THE_REWRITER.search(line)]
    assert not found, "\n".join(found)
    assert PAST_THE_REWRITER.search("  layer->attrs = simple;") and PAST_THE_REWRITER.search("graph.rename(made, name);")
