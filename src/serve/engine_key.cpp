// SPDX-License-Identifier: Apache-2.0
#include "serve/engine_key.h"

#include <array>
#include <fstream>
#include <memory>

#include <fmt/format.h>
#include <openssl/evp.h>

#include "base/cpu.h"
#include "base/status.h"
#include "camshaft/version.h"

namespace camshaft::serve {

namespace fs = std::filesystem;

namespace {

constexpr size_t kHexDigits = 40;
constexpr size_t kPiece = size_t{1} << 20;

class Digest {
 public:
  Digest() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
    EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr);
  }
  void add(const void* data, size_t bytes) { EVP_DigestUpdate(context_.get(), data, bytes); }
  std::string hex() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
    unsigned count = 0;
    EVP_DigestFinal_ex(context_.get(), bytes.data(), &count);
    std::string text;
    for (unsigned k = 0; k < count; ++k) text += fmt::format("{:02x}", bytes[k]);
    return text.substr(0, kHexDigits);
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

}  // namespace

Result<std::string> engine_key(const std::vector<fs::path>& files, const std::string& facts) {
  Digest digest;
  std::vector<char> piece(kPiece);
  for (const fs::path& file : files) {
    std::ifstream stream(file, std::ios::binary);
    const std::string name = file.filename().string() + '\0';
    digest.add(name.data(), name.size());
    do {
      stream.read(piece.data(), static_cast<std::streamsize>(piece.size()));
      digest.add(piece.data(), static_cast<size_t>(stream.gcount()));
    } while (stream.good());
    if (!stream.eof()) return make_error(ErrorCode::kIo, "{}: cannot be read", file.string());
  }
  const std::string all = fmt::format("serve {} {} {} {}", CAMSHAFT_VERSION, cpu_fingerprint(),
                                      isa_name(active_isa()), facts);
  digest.add(all.data(), all.size());
  return digest.hex();
}

}  // namespace camshaft::serve
