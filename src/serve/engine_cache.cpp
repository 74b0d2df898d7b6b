// SPDX-License-Identifier: Apache-2.0
#include "serve/engine_cache.h"

#include <algorithm>
#include <array>
#include <cstdlib>
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

const char* variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != 0 ? value : nullptr;
}

}  // namespace

fs::path EngineCache::default_folder() {
  if (const char* folder = variable("CAMSHAFT_CACHE_DIR")) return folder;
  if (const char* folder = variable("XDG_CACHE_HOME")) return fs::path(folder) / "camshaft";
  if (const char* home = variable("HOME")) return fs::path(home) / ".cache" / "camshaft";
  return {};
}

uint64_t EngineCache::default_limit() {
  if (const char* bytes = variable("CAMSHAFT_CACHE_BYTES"))
    return std::strtoull(bytes, nullptr, 10);
  return uint64_t{4} << 30;
}

Result<std::string> EngineCache::key(const std::vector<fs::path>& files, const std::string& facts) {
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

std::optional<Engine> EngineCache::load(const std::string& key, std::string& note) const {
  std::error_code error;
  if (folder_.empty() || !fs::exists(path(key), error)) return std::nullopt;
  Result<Engine> engine = Engine::load(path(key));
  if (!engine.ok()) {
    note = engine.status().message() + "; it is built again";
    return std::nullopt;
  }
  fs::last_write_time(path(key), fs::file_time_type::clock::now(), error);
  return std::move(engine).value();
}

Status EngineCache::store(const std::string& key, const Engine& engine) const {
  if (folder_.empty()) return ok_status();
  std::error_code error;
  fs::create_directories(folder_, error);
  CAMSHAFT_TRY(engine.save(path(key)).with_context("the engine is not kept"));
  trim(path(key));
  return ok_status();
}

void EngineCache::trim(const fs::path& keep) const {
  struct File {
    fs::file_time_type used;
    uint64_t bytes;
    fs::path path;
  };
  std::vector<File> files;
  uint64_t total = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder_, error)) {
    std::error_code gone;  // another process may remove it meanwhile
    if (entry.path().extension() != ".engine") continue;
    const uint64_t bytes = entry.file_size(gone);
    const auto used = entry.last_write_time(gone);
    if (gone) continue;
    files.push_back({used, bytes, entry.path()});
    total += bytes;
  }
  std::sort(files.begin(), files.end(),
            [](const File& a, const File& b) { return a.used < b.used; });
  for (const File& file : files) {
    if (total <= limit_) return;
    if (file.path == keep) continue;
    fs::remove(file.path, error);
    total -= file.bytes;
  }
}

}  // namespace camshaft::serve
