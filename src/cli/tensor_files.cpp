// SPDX-License-Identifier: Apache-2.0
#include "cli/tensor_files.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <system_error>

#include <fmt/format.h>
#include <unistd.h>

#include "archive/zip.h"
#include "onnx/importer.h"

namespace camshaft::cli {
namespace {

struct NpyType {
  DataType type;
  const char* descr;
};
// The first row of a type is how it is written.
constexpr NpyType kNpyTypes[] = {
    {DataType::kFloat, "<f4"},    {DataType::kHalf, "<f2"},   {DataType::kDouble, "<f8"},
    {DataType::kInt8, "|i1"},     {DataType::kUInt8, "|u1"},  {DataType::kInt16, "<i2"},
    {DataType::kUInt16, "<u2"},   {DataType::kInt32, "<i4"},  {DataType::kUInt32, "<u4"},
    {DataType::kInt64, "<i8"},    {DataType::kUInt64, "<u8"}, {DataType::kBool, "|b1"},
    {DataType::kBFloat16, "<u2"},
};

Status broken(const std::string& what, const char* why) {
  return make_error(ErrorCode::kInvalidArgument, "{}: not a usable NPY file: {}", what, why);
}

// The text after 'key': in a Python dict literal, up to and excluding `end`.
std::string field(const std::string& header, const std::string& key, size_t& at) {
  const size_t found = header.find("'" + key + "'");
  if (found == std::string::npos) return "";
  at = header.find(':', found);
  if (at == std::string::npos) return "";
  at = header.find_first_not_of(' ', at + 1);
  return at == std::string::npos ? "" : header.substr(at);
}

Result<Dims> parse_shape(const std::string& text, const std::string& what) {
  Dims dims;
  const size_t close = text.find(')');
  if (text.empty() || text[0] != '(' || close == std::string::npos) return broken(what, "no shape");
  const char* at = text.data() + 1;
  const char* end = text.data() + close;
  while (at < end) {
    if (*at == ' ' || *at == ',' || *at == 'L') {
      ++at;
      continue;
    }
    int64_t extent = 0;
    const auto parsed = std::from_chars(at, end, extent);
    if (parsed.ec != std::errc() || extent < 0) return broken(what, "bad shape");
    dims.push_back(extent);
    at = parsed.ptr;
  }
  return dims;
}

// Bytes of a tensor, -1 where the product does not fit.
int64_t checked_bytes(DataType type, const Dims& dims) {
  int64_t count = 1;
  for (int64_t extent : dims) {
    if (extent != 0 && count > (int64_t{1} << 40) / extent) return -1;
    count *= extent;
  }
  return static_cast<int64_t>(byte_size(type, count));
}

// Fortran order to row major.
std::vector<std::byte> transposed(const std::vector<std::byte>& bytes, const Dims& dims,
                                  size_t element) {
  std::vector<std::byte> out(bytes.size());
  Dims index(dims.size(), 0);
  for (size_t row_major = 0; row_major * element < bytes.size(); ++row_major) {
    size_t source = 0;
    size_t stride = 1;
    for (size_t k = 0; k < dims.size(); ++k) {
      source += static_cast<size_t>(index[k]) * stride;
      stride *= static_cast<size_t>(dims[k]);
    }
    std::memcpy(out.data() + row_major * element, bytes.data() + source * element, element);
    for (size_t k = dims.size(); k-- > 0 && ++index[k] == dims[k];) index[k] = 0;
  }
  return out;
}

template <class T>
T little(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

constexpr size_t kMostEntryBytes = size_t{1} << 32;

Result<std::vector<std::byte>> read_member(ZipReader& zip, const std::string& what) {
  std::vector<std::byte> bytes;
  for (size_t piece = size_t{1} << 16;; piece *= 2) {
    const size_t before = bytes.size();
    if (before > kMostEntryBytes)
      return make_error(ErrorCode::kInvalidArgument, "{}: too large an NPZ entry", what);
    bytes.resize(before + piece);
    CAMSHAFT_ASSIGN(const size_t got,
                    zip.read(reinterpret_cast<char*>(bytes.data()) + before, piece));
    bytes.resize(before + got);
    if (got < piece) break;
  }
  if (zip.is_damaged())
    return make_error(ErrorCode::kInvalidArgument, "{}: damaged NPZ entry", what);
  return bytes;
}

// A device or a pipe: written to, never replaced.
bool is_special(const std::filesystem::path& file) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(file, error);
  return std::filesystem::exists(status) && !std::filesystem::is_regular_file(status) &&
         !std::filesystem::is_directory(status);
}

bool starts_with(std::span<const std::byte> bytes, std::string_view text, size_t at = 0) {
  return bytes.size() >= at + text.size() &&
         std::memcmp(bytes.data() + at, text.data(), text.size()) == 0;
}

// "PNG": a picture by its first bytes or its name; "": none.
std::string_view picture_kind(std::span<const std::byte> bytes, const std::filesystem::path& file) {
  std::string ending = file.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (starts_with(bytes, "\x89PNG\r\n") || ending == ".png") return "PNG";
  const bool is_jpeg = starts_with(bytes, "\xff\xd8\xff") &&
                       (starts_with(bytes, "JFIF", 6) || starts_with(bytes, "Exif", 6));
  return is_jpeg || ending == ".jpg" || ending == ".jpeg" ? "JPEG" : "";
}

}  // namespace

Result<std::vector<std::byte>> read_file(const std::filesystem::path& file) {
  std::error_code error;
  if (std::filesystem::is_directory(file, error))
    return make_error(ErrorCode::kIo, "{}: is a folder", file.string());
  std::ifstream stream(file, std::ios::binary | std::ios::ate);
  if (!stream) return make_error(ErrorCode::kIo, "{}: {}", file.string(), std::strerror(errno));
  std::vector<std::byte> bytes(static_cast<size_t>(std::max<std::streamoff>(stream.tellg(), 0)));
  stream.seekg(0);
  stream.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!stream) return make_error(ErrorCode::kIo, "{}: cannot be read", file.string());
  return bytes;
}

Status check_writable(const std::filesystem::path& file, std::string_view option) {
  if (file.empty()) return ok_status();
  std::error_code error;
  if (std::filesystem::is_directory(file, error))
    return make_error(ErrorCode::kIo, "{}: {} is a folder", option, file.string());
  if (is_special(file)) return ok_status();
  const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : ".";
  if (access(folder.c_str(), W_OK | X_OK) != 0)
    return make_error(ErrorCode::kIo, "{}: {} cannot be written: {}: {}", option, file.string(),
                      folder.string(), std::strerror(errno));
  return ok_status();
}

Status check_readable(const std::filesystem::path& file, std::string_view option) {
  std::error_code error;
  if (file.empty()) return make_error(ErrorCode::kInvalidArgument, "{}: no file is named", option);
  if (std::filesystem::is_directory(file, error))
    return make_error(ErrorCode::kIo, "{}: {} is a folder", option, file.string());
  if (access(file.c_str(), R_OK) != 0)
    return make_error(ErrorCode::kIo, "{}: {}: {}", option, file.string(), std::strerror(errno));
  return ok_status();
}

Status write_file(const std::filesystem::path& file, std::span<const std::byte> bytes) {
  const bool in_place = is_special(file);
  const std::filesystem::path temporary =
      in_place ? file.string() : file.string() + fmt::format(".{}.tmp", getpid());
  std::ofstream stream(temporary, std::ios::binary);
  if (!stream) return make_error(ErrorCode::kIo, "{}: {}", file.string(), std::strerror(errno));
  stream.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  stream.close();
  std::error_code error;
  if (stream && !in_place) std::filesystem::rename(temporary, file, error);
  if (!stream || error) {
    std::error_code ignored;
    if (!in_place) std::filesystem::remove(temporary, ignored);
    return make_error(ErrorCode::kIo, "{}: cannot be written{}", file.string(),
                      error ? ": " + error.message() : "");
  }
  return ok_status();
}

Status write_file(const std::filesystem::path& file, const std::string& text) {
  return write_file(file, std::as_bytes(std::span<const char>(text)));
}

Result<HostTensor> parse_npy(std::span<const std::byte> bytes, const std::string& what) {
  static constexpr char kMagic[] = "\x93NUMPY";
  if (bytes.size() < 10 || std::memcmp(bytes.data(), kMagic, 6) != 0)
    return broken(what, "no NPY header");
  const bool wide = static_cast<int>(bytes[6]) > 1;
  if (wide && bytes.size() < 12) return broken(what, "truncated");
  const size_t start = wide ? 12 : 10;
  const size_t header_size =
      wide ? little<uint32_t>(bytes.data() + 8) : little<uint16_t>(bytes.data() + 8);
  if (header_size > bytes.size() - start) return broken(what, "truncated");
  const std::string header(reinterpret_cast<const char*>(bytes.data()) + start, header_size);
  size_t at = 0;
  std::string descr = field(header, "descr", at);
  descr = descr.size() > 4 ? descr.substr(1, descr.find('\'', 1) - 1) : "";
  if (!descr.empty() && descr[0] == '=') descr[0] = '<';
  const auto* type = std::find_if(
      std::begin(kNpyTypes), std::end(kNpyTypes),
      [&](const NpyType& row) { return descr.size() == 3 && descr.substr(1) == row.descr + 1; });
  if (type == std::end(kNpyTypes)) {
    return make_error(ErrorCode::kUnsupported, "{}: NPY element type '{}' is not supported", what,
                      descr);
  }
  HostTensor tensor;
  tensor.type = type->type;
  CAMSHAFT_ASSIGN(tensor.dims, parse_shape(field(header, "shape", at), what));
  const int64_t size = checked_bytes(tensor.type, tensor.dims);
  if (size < 0 || static_cast<size_t>(size) > bytes.size() - start - header_size)
    return broken(what, "truncated");
  const std::byte* data = bytes.data() + start + header_size;
  tensor.bytes.assign(data, data + size);
  if (const size_t element = byte_size(tensor.type, 1); descr[0] == '>' && element > 1) {
    for (size_t k = 0; k < tensor.bytes.size(); k += element)
      std::reverse(tensor.bytes.begin() + static_cast<std::ptrdiff_t>(k),
                   tensor.bytes.begin() + static_cast<std::ptrdiff_t>(k + element));
    tensor.note = fmt::format("{}: big-endian values were turned round", what);
  }
  if (field(header, "fortran_order", at).starts_with("True")) {
    tensor.bytes = transposed(tensor.bytes, tensor.dims, byte_size(tensor.type, 1));
  }
  return tensor;
}

Result<HostTensor> read_tensor(const std::filesystem::path& file) {
  if (file.extension() == ".pb") {
    CAMSHAFT_ASSIGN(auto stored, onnx_import::read_tensor_file(file));
    return HostTensor{stored.name, static_cast<DataType>(stored.type), true,
                      Dims(stored.extents.begin(), stored.extents.end()), std::move(stored.bytes)};
  }
  CAMSHAFT_ASSIGN(std::vector<std::byte> bytes, read_file(file));
  if (file.extension() == ".npy") return parse_npy(bytes, file.string());
  if (const std::string_view kind = picture_kind(bytes, file); !kind.empty())
    return make_error(ErrorCode::kUnsupported,
                      "{}: a {} picture, not a tensor: resize and scale it as the network was "
                      "trained and store it with numpy.save",
                      file.string(), kind);
  return HostTensor{"", DataType::kUndefined, false, {}, std::move(bytes)};
}

Result<std::vector<HostTensor>> read_npz(const std::filesystem::path& file) {
  CAMSHAFT_ASSIGN(const std::vector<std::byte> bytes, read_file(file));
  auto zip = ZipReader::open(bytes.data(), bytes.size());
  std::vector<HostTensor> tensors;
  for (;;) {
    auto more = !zip.ok()         ? Result<bool>(zip.status())
                : tensors.empty() ? (*zip)->first()
                                  : (*zip)->next();
    if (!more.ok() || (!*more && tensors.empty()))
      return make_error(ErrorCode::kInvalidArgument, "{}: not an NPZ file{}", file.string(),
                        more.ok() ? "" : ", or a damaged one: " + more.status().message());
    if (!*more) return tensors;
    const std::string& name = (*zip)->name();
    const std::string what = fmt::format("{}: {}", file.string(), name);
    CAMSHAFT_ASSIGN(const std::vector<std::byte> data, read_member(**zip, what));
    CAMSHAFT_ASSIGN(HostTensor tensor, parse_npy(data, what));
    tensor.name = name.ends_with(".npy") ? name.substr(0, name.size() - 4) : name;
    tensors.push_back(std::move(tensor));
  }
}

Status write_npy(const std::filesystem::path& file, const TensorView& view) {
  const auto* type = std::find_if(std::begin(kNpyTypes), std::end(kNpyTypes),
                                  [&](const NpyType& row) { return row.type == view.type; });
  if (type == std::end(kNpyTypes)) {
    return make_error(ErrorCode::kUnsupported, "{}: NPY has no {} elements", file.string(),
                      type_name(view.type));
  }
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", type->descr,
                  fmt::join(view.dims, ", "), view.dims.size() == 1 ? "," : "");
  header.resize((header.size() + 10 + 1 + 63) / 64 * 64 - 11, ' ');
  header += '\n';
  std::string out("\x93NUMPY\x01\x00", 8);
  const auto size = static_cast<uint16_t>(header.size());
  out.append(reinterpret_cast<const char*>(&size), 2);
  out += header;
  out.append(static_cast<const char*>(view.data), view.bytes());
  return write_file(file, out);
}

std::string file_name_of(const std::string& tensor_name) {
  std::string out = tensor_name;
  for (char& c : out) {
    if (c == '/' || c == '\\' || c == ':' || static_cast<unsigned char>(c) < 32) c = '_';
  }
  return out;
}

std::vector<std::string> file_names_of(const std::vector<TensorInfo>& tensors) {
  std::vector<std::string> names;
  for (const TensorInfo& tensor : tensors) {
    const std::string plain = file_name_of(tensor.name);
    std::string name = plain;
    for (int k = 2; std::find(names.begin(), names.end(), name) != names.end(); ++k)
      name = fmt::format("{}_{}", plain, k);
    names.push_back(std::move(name));
  }
  return names;
}

}  // namespace camshaft::cli
