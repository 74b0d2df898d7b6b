// SPDX-License-Identifier: Apache-2.0
// The built page lies in src/server/page (made by web/, see web/README.md) and becomes part of the
// program here.
#include "server/page.h"

#include <array>

// CAMSHAFT_PAGE_DIR is the folder of the built page; the build depends on its files
// (src/CMakeLists.txt).
#define CAMSHAFT_EMBED(symbol, file)                                                         \
  __asm__(".section .rodata\n.global " #symbol "\n.balign 16\n" #symbol                      \
          ":\n.incbin \"" CAMSHAFT_PAGE_DIR "/" file "\"\n.global " #symbol "_end\n" #symbol \
          "_end:\n.byte 0\n.previous\n");                                                    \
  extern "C" const char symbol[];                                                            \
  extern "C" const char symbol##_end[]

CAMSHAFT_EMBED(camshaft_page_index, "index.html");
CAMSHAFT_EMBED(camshaft_page_script, "app.js");
CAMSHAFT_EMBED(camshaft_page_style, "app.css");

namespace camshaft::server {
namespace {

struct PageFile {
  const char* path;
  const char* type;
  const char* begin;
  const char* end;
};

const std::array<PageFile, 3>& files() {
  static const std::array<PageFile, 3> table{{
      {"/", "text/html; charset=utf-8", camshaft_page_index, camshaft_page_index_end},
      {"/app.js", "text/javascript; charset=utf-8", camshaft_page_script, camshaft_page_script_end},
      {"/app.css", "text/css; charset=utf-8", camshaft_page_style, camshaft_page_style_end},
  }};
  return table;
}

}  // namespace

Answer page_file(const std::string& path) {
  Answer answer;
  for (const PageFile& file : files()) {
    if (path != file.path && !(path == "/index.html" && std::string("/") == file.path)) continue;
    answer.body.assign(file.begin, file.end);
    answer.content_type = file.type;
    return answer;
  }
  answer.status = 404;
  answer.content_type = "text/plain; charset=utf-8";
  answer.body = "nothing here\n";
  return answer;
}

}  // namespace camshaft::server
