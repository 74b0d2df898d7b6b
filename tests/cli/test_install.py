# SPDX-License-Identifier: Apache-2.0
"""What `make install` leaves can be used by others: CMake package, pkg-config, headers that stand alone."""
import os
import re
import shutil
import subprocess

import conftest
import pytest

BUILD = conftest.BIN.parent


def sh(*words, **kw):
    process = subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=300, **kw)
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    if not (BUILD / "cmake_install.cmake").exists() or not (BUILD / "lib/libcamshaft.so").exists():
        pytest.skip(f"{BUILD} is not a complete build")
    prefix = tmp_path_factory.mktemp("prefix")
    sh("cmake", "--install", BUILD, "--prefix", prefix)
    return prefix


def test_programs_and_files(prefix):
    names = {str(p.relative_to(prefix)) for p in prefix.rglob("*")}
    for wanted in ["bin/camshaft", "bin/camexec", "include/camshaft/builder.h", "include/camshaft/c_api.h", "include/camshaft/version.h"]:
        assert wanted in names
    assert sh(prefix / "bin/camshaft", "version").startswith("camshaft ")


def test_pkg_config_and_c(prefix, tmp_path, conv_file):
    if shutil.which("pkg-config") is None:
        pytest.skip("no pkg-config")
    folder = next(prefix.rglob("pkgconfig"))
    env = {**os.environ, "PKG_CONFIG_PATH": str(folder)}
    flags = sh("pkg-config", "--cflags", "--libs", "camshaft-c", env=env).split()
    sh("cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", conftest.ROOT / "examples/run_c.c", "-o", tmp_path / "run_c", *flags,
       f"-Wl,-rpath,{folder.parent}")
    assert sh(tmp_path / "run_c", conv_file, tmp_path / "e.engine").startswith("y 1x8x16x16")
    # The run-time library alone loads what was built, and has no builder.
    (tmp_path / "rt.c").write_text('#include "camshaft/c_api.h"\nint main(int c, char** v) { camshaft_engine* e; (void)c;\n'
                                   "  return camshaft_engine_load(v[1], &e) != CAMSHAFT_OK; }\n")
    flags = sh("pkg-config", "--cflags", "--libs", "camshaft-rt-c", env=env).split()
    sh("cc", "-Werror", tmp_path / "rt.c", "-o", tmp_path / "rt", *flags, f"-Wl,-rpath,{folder.parent}")
    sh(tmp_path / "rt", tmp_path / "e.engine")
    symbols = sh("nm", "-D", "--defined-only", folder.parent / "libcamshaft-rt.so")
    assert "camshaft_engine_load" in symbols and "camshaft_build_file" not in symbols


def test_pkg_config_carries_the_standard_of_cpp(prefix, tmp_path):
    if shutil.which("pkg-config") is None:
        pytest.skip("no pkg-config")
    folder = next(prefix.rglob("pkgconfig"))
    env = {**os.environ, "PKG_CONFIG_PATH": str(folder)}
    for library in ["camshaft", "camshaft-rt"]:
        flags = sh("pkg-config", "--cflags", "--libs", library, env=env).split()
        assert "-std=c++20" in flags
        (tmp_path / "one.cpp").write_text('#include "camshaft/engine.h"\nint main() { return camshaft::Engine::load("x").ok(); }\n')
        sh("c++", tmp_path / "one.cpp", "-o", tmp_path / "one", *flags, f"-Wl,-rpath,{folder.parent}")
        sh(tmp_path / "one")


def test_docs_and_examples_are_installed(prefix, tmp_path, conv_file):
    share = next(prefix.rglob("api.md")).parents[1]
    for wanted in ["README.md", "docs/cli.md", "examples/run_c.c", "examples/run_cpp.cpp", "examples/yolox_demo.cpp"]:
        assert (share / wanted).exists(), wanted
    sh("cmake", "-S", share / "examples", "-B", tmp_path / "b", f"-DCMAKE_PREFIX_PATH={prefix}")
    sh("cmake", "--build", tmp_path / "b", "--target", "run_c", "run_cpp")
    assert sh(tmp_path / "b/run_cpp", conv_file).startswith("y 1x8x16x16")


def snippets(language):
    text = (conftest.ROOT / "docs/api.md").read_text()
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)


def test_snippets_of_the_api_page_compile_and_run(prefix, tmp_path, conv_file, dynamic_file):
    """Every block of docs/api.md as it stands, with the commands that stand there."""
    libraries = next(prefix.rglob("libcamshaft.so")).parent
    shutil.copy(conv_file, tmp_path / "model.onnx")
    env = {**os.environ, "PKG_CONFIG_PATH": f"{libraries}/pkgconfig", "LD_LIBRARY_PATH": str(libraries)}
    cpp_command, c_command = snippets("sh")[0].splitlines()
    assert len(snippets("cpp")) == 3 and len(snippets("c")) == 1
    outputs = []
    for command, file, blocks in [(cpp_command, "program.cpp", snippets("cpp")), (c_command, "program.c", snippets("c"))]:
        for block in blocks:
            (tmp_path / file).write_text(block)
            sh("sh", "-ec", command.replace("program.c", "-Wall -Wextra -Werror program.c", 1), cwd=tmp_path, env=env)
            outputs.append(sh(tmp_path / "program", cwd=tmp_path, env=env))
    assert re.match(r"y 1x8x16x16: \S+ \.\.\.$", outputs[0])
    assert outputs[1] == "y 5x8x16x16\n"
    assert "conv1" in outputs[2] and "Fusing" in outputs[2]
    assert outputs[3] == "y has 4 dimensions\n"
    (tmp_path / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.22)\nproject(p CXX)\nadd_executable(program program.cpp)\n" +
                                             snippets("cmake")[0])
    sh("cmake", "-S", tmp_path, "-B", tmp_path / "b", f"-DCMAKE_PREFIX_PATH={prefix}")


def test_cmake_package_and_cpp(prefix, tmp_path, conv_file):
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.22)\nproject(user CXX)\nfind_package(camshaft 0.1 REQUIRED)\n"
        f"add_executable(user {conftest.ROOT}/examples/run_cpp.cpp)\ntarget_link_libraries(user camshaft::camshaft)\n")
    sh("cmake", "-S", tmp_path, "-B", tmp_path / "b", f"-DCMAKE_PREFIX_PATH={prefix}")
    sh("cmake", "--build", tmp_path / "b")
    assert sh(tmp_path / "b/user", conv_file).startswith("y 1x8x16x16")


def test_libraries_show_only_the_public_names(prefix):
    for library in prefix.rglob("lib*/libcamshaft*.so"):
        names = [line.split(" ", 2)[2] for line in sh("nm", "-DC", "--defined-only", library).splitlines()]
        hidden = r"((vtable|typeinfo|typeinfo name) for )?(camshaft::(ir|engine|kernels|runtime|passes|tuner|inspect|onnx_import|api)|fmt|nlohmann)::"
        assert not [n for n in names if re.match(hidden, n)]


def test_each_header_stands_alone(prefix, tmp_path):
    for header in sorted((prefix / "include/camshaft").glob("*.h")):
        (tmp_path / "one.cpp").write_text(f'#include "camshaft/{header.name}"\n#include "camshaft/{header.name}"\n')
        sh("c++", "-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{prefix}/include", tmp_path / "one.cpp")
