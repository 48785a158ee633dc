#include "core/formats/gguf.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>
#include <type_traits>

#include "core/error.h"
#include "core/file_io.h"
#include "core/file_status.h"

namespace folio::core {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF is little-endian, and is read in place");

constexpr uint32_t kMagic = 0x46554747;  // "GGUF"
// The format's default alignment. llama.cpp could not quantize files with another alignment: llama-quantize copies the
// key general.alignment, but aligns tensors to 32 bytes.
constexpr uint64_t kWrittenAlignment = 32;
constexpr int kMaxArrayDepth = 4;
// Limits for a file's metadata and list of tensors, so that a damaged file cannot cause huge allocations. The largest
// published vocabularies have about 260,000 tokens and 10 MB.
constexpr uint64_t kMaxHeaderBytes = uint64_t{64} << 20U;
constexpr uint64_t kMaxItems = uint64_t{1} << 22U;  // maximum number of elements in all metadata arrays together
constexpr uint64_t kMaxEntries = uint64_t{1} << 16U;

// Calls visit<T>(), where T is the variant's alternative at index `type`. Returns false if the index is too large.
template <typename Variant, typename Visitor>
bool with_alternative(uint32_t type, Visitor&& visit) {
  return [&]<size_t... I>(std::index_sequence<I...>) {
    return ((type == I && (visit.template operator()<std::variant_alternative_t<I, Variant>>(), true)) || ...);
  }(std::make_index_sequence<std::variant_size_v<Variant>>());
}

// Reads values sequentially. Throws Error instead of reading past the end of the file.
class Cursor {
 public:
  explicit Cursor(const MappedFile& file) : file_(file) {}

  [[nodiscard]] const std::filesystem::path& path() const { return file_.path(); }
  [[nodiscard]] uint64_t offset() const { return offset_; }
  [[nodiscard]] uint64_t remaining() const { return file_.bytes().size() - offset_; }

  template <typename... Args>
  [[noreturn]] void fail_here(fmt::format_string<Args...> format, Args&&... args) const {
    fail("{}: {} (byte {}); the file is damaged or not a GGUF, download or convert it again", file_.path().string(),
         fmt::format(format, std::forward<Args>(args)...), offset_);
  }

  void need(uint64_t bytes, const char* what) const {
    if (bytes > remaining()) fail_here("{} needs {} bytes, but only {} are left", what, bytes, remaining());
    if (bytes > kMaxHeaderBytes - offset_) {
      fail_here("{} of {} bytes makes the header longer than {} bytes", what, bytes, kMaxHeaderBytes);
    }
  }

  template <typename T>
  T number(const char* what) {
    need(sizeof(T), what);
    T value;
    std::memcpy(&value, file_.bytes().data() + offset_, sizeof(T));
    offset_ += sizeof(T);
    return value;
  }

  std::string string(const char* what) {
    const auto length = number<uint64_t>(what);
    need(length, what);
    std::string text(reinterpret_cast<const char*>(file_.bytes().data()) + offset_, length);
    offset_ += length;
    return text;
  }

  template <typename T>
  T value(int depth) {
    if constexpr (std::is_same_v<T, std::string>) {
      return string("a string");
    } else if constexpr (std::is_same_v<T, GgufArray>) {
      return array(depth + 1);
    } else if constexpr (std::is_same_v<T, bool>) {
      const auto byte = number<uint8_t>("a boolean");
      if (byte > 1) fail_here("a boolean is {}, expected 0 or 1", byte);
      return byte == 1;
    } else {
      return number<T>("a number");
    }
  }

 private:
  GgufArray array(int depth) {
    if (depth > kMaxArrayDepth) fail_here("arrays are nested deeper than {}", kMaxArrayDepth);
    const auto type = number<uint32_t>("an array's type");
    const auto count = number<uint64_t>("an array's length");
    GgufArray result;
    const bool known = with_alternative<decltype(result.items)>(type, [&]<typename Vector>() {
      using Item = typename Vector::value_type;
      // Checks the count before allocating memory. kLeast: minimum size of an item in the file, in bytes.
      constexpr uint64_t kLeast = std::is_same_v<Item, std::string> ? 8
                                  : std::is_same_v<Item, GgufArray> ? 12
                                  : std::is_same_v<Item, bool>      ? 1
                                                                    : sizeof(Item);
      if (count > remaining() / kLeast) fail_here("an array of {} items does not fit in the file", count);
      if (count > kMaxItems - n_items_) fail_here("the arrays have more than {} items", kMaxItems);
      n_items_ += count;
      Vector items;
      items.reserve(count);
      for (uint64_t i = 0; i < count; ++i) items.push_back(value<Item>(depth));
      result.items = std::move(items);
    });
    if (!known) fail_here("unknown array type {}", type);
    return result;
  }

  const MappedFile& file_;
  uint64_t offset_ = 0;
  uint64_t n_items_ = 0;
};

struct TensorHeader {
  TensorView view;
  uint64_t offset;
};

TensorHeader read_tensor_header(Cursor& in) {
  TensorHeader header;
  header.view.name = in.string("a tensor's name");
  const auto n_dims = in.number<uint32_t>("a tensor's number of dimensions");
  if (n_dims == 0 || n_dims > 4) in.fail_here("tensor {} has {} dimensions", printable(header.view.name), n_dims);
  for (uint32_t i = 0; i < n_dims; ++i) {
    const auto size = in.number<int64_t>("a tensor's dimension");
    if (size <= 0) in.fail_here("tensor {} has a dimension of {}", printable(header.view.name), size);
    header.view.shape.insert(header.view.shape.begin(), size);  // the file stores dimensions in reverse order
  }
  const auto id = in.number<uint32_t>("a tensor's type");
  const auto type = dtype_from_ggml(id);
  if (!type) {
    fail("{}: tensor {} has the unknown type {}; i-quants such as IQ4_XS are not supported, use Q4_K_M or Q8_0",
         in.path().string(), printable(header.view.name), id);
  }
  header.view.type = *type;
  header.offset = in.number<uint64_t>("a tensor's offset");
  return header;
}

// Returns the tensors in `headers` as views of `file`. `in` must be at the end of the header. Throws Error unless each
// tensor has a valid size, is aligned, is in the file and overlaps no other.
std::vector<TensorView> located(const std::vector<TensorHeader>& headers, const Cursor& in,
                                std::span<const std::byte> file, int64_t alignment) {
  if (alignment < 1 || alignment > 65536 || !std::has_single_bit(static_cast<uint64_t>(alignment))) {
    in.fail_here("general.alignment is {}, but must be a power of two up to 65536", alignment);
  }
  const uint64_t start = aligned(in.offset(), static_cast<uint64_t>(alignment));
  const uint64_t available = file.size() - std::min<uint64_t>(start, file.size());
  std::vector<TensorView> tensors;
  std::vector<std::pair<uint64_t, uint64_t>> extents;
  for (const auto& [view, offset] : headers) {
    const auto bytes = tensor_bytes(view.type, view.shape);
    if (!bytes) {
      in.fail_here("tensor {} has shape {}, which is not valid for type {}", printable(view.name),
                   shape_string(view.shape), info(view.type).name);
    }
    if (offset % static_cast<uint64_t>(alignment) != 0) {
      in.fail_here("tensor {} has offset {}, which is not a multiple of the alignment {}", printable(view.name), offset,
                   alignment);
    }
    if (offset > available || *bytes > available - offset) {
      in.fail_here("tensor {} needs {} bytes at offset {}, past the end of the file at {}", printable(view.name),
                   *bytes, offset, file.size());
    }
    extents.emplace_back(start + offset, start + offset + *bytes);
    tensors.push_back(view);
    tensors.back().bytes = file.subspan(start + offset, *bytes);
  }
  std::sort(extents.begin(), extents.end());
  for (size_t i = 1; i < extents.size(); ++i) {
    if (extents[i].first < extents[i - 1].second) in.fail_here("two tensors overlap at byte {}", extents[i].first);
  }
  return tensors;
}

constexpr const char* kSplitPart = "split.no";
constexpr const char* kSplitCount = "split.count";
constexpr const char* kSplitTensors = "split.tensors.count";

void put_string(OutputFile& out, std::string_view text) {
  out.put<uint64_t>(text.size());
  out.write(text);
}

template <typename T>
void put_value(OutputFile& out, const T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    put_string(out, value);
  } else if constexpr (std::is_same_v<T, GgufArray>) {
    out.put<uint32_t>(static_cast<uint32_t>(value.items.index()));
    out.put<uint64_t>(value.size());
    std::visit(
        [&](const auto& items) {
          using Item = typename std::decay_t<decltype(items)>::value_type;
          for (const auto& item : items) put_value<Item>(out, item);
        },
        value.items);
  } else if constexpr (std::is_same_v<T, bool>) {
    out.put<uint8_t>(value ? 1 : 0);
  } else {
    out.put<T>(value);
  }
}

}  // namespace

size_t GgufArray::size() const {
  return std::visit([](const auto& v) { return v.size(); }, items);
}

bool is_gguf(const std::filesystem::path& path) {
  const MappedFile file(path);
  uint32_t magic = 0;
  if (file.bytes().size() < sizeof magic) return false;
  std::memcpy(&magic, file.bytes().data(), sizeof magic);
  return magic == kMagic;
}

GgufFile::GgufFile(const std::filesystem::path& path) : GgufFile(path, OneFile{}) {
  if (const int64_t count = integer(kSplitCount, 1); count > 1) read_parts(count);  // a count of 0 marks a merged file
}

GgufFile::GgufFile(const std::filesystem::path& path, OneFile) : file_(path) {
  Cursor in(file_);
  const auto magic = in.number<uint32_t>("the magic number");
  if (magic != kMagic) fail("{}: not a GGUF file: the magic number is {:08x}, expected \"GGUF\"", path.string(), magic);
  const auto version = in.number<uint32_t>("the version");
  if (version != 2 && version != 3) {
    fail("{}: GGUF version {} is not supported (supported: 2 and 3); re-convert the model", path.string(), version);
  }
  const auto n_tensors = in.number<uint64_t>("the number of tensors");
  const auto n_keys = in.number<uint64_t>("the number of metadata keys");
  // In the file, a key and its value have at least 13 bytes. A tensor's name, shape, type and offset have at least 32.
  if (n_keys > in.remaining() / 13) in.fail_here("{} metadata keys do not fit in the file", n_keys);
  if (n_tensors > in.remaining() / 32) in.fail_here("{} tensors do not fit in the file", n_tensors);
  if (n_keys > kMaxEntries || n_tensors > kMaxEntries) {
    in.fail_here("{} metadata keys and {} tensors exceed the limit of {}", n_keys, n_tensors, kMaxEntries);
  }

  for (uint64_t i = 0; i < n_keys; ++i) {
    std::string key = in.string("a metadata key");
    const auto type = in.number<uint32_t>("a metadata type");
    if (!key_index_.emplace(key, metadata_.size()).second) in.fail_here("key {} occurs twice", printable(key));
    const bool known = with_alternative<GgufValue>(
        type, [&]<typename T>() { metadata_.emplace_back(std::move(key), GgufValue(in.value<T>(0))); });
    if (!known) in.fail_here("key {} has the unknown type {}", printable(key), type);
  }

  std::vector<TensorHeader> headers;
  for (uint64_t i = 0; i < n_tensors; ++i) {
    headers.push_back(read_tensor_header(in));
    const std::string& name = headers.back().view.name;
    if (!tensor_index_.emplace(name, i).second) in.fail_here("tensor {} occurs twice", printable(name));
  }

  tensors_ = located(headers, in, file_.bytes(), integer("general.alignment", 32));
}

void GgufFile::read_parts(int64_t count) {
  const std::string where = path().string();
  require(count <= 10000, "{}: {} is {}, but must be at most 10000", where, kSplitCount, count);
  const auto ending = [&](int64_t part) { return fmt::format("-{:05}-of-{:05}.gguf", part + 1, count); };
  const int64_t part = integer(kSplitPart);
  require(part == 0, "{} is part {} of {}; use the first part, whose name ends with {}", where, part + 1, count,
          [&] { return ending(0); });
  require(where.ends_with(ending(0)), "{}: the name of the first of {} parts must end with {}", where, count,
          [&] { return ending(0); });
  const std::string stem = where.substr(0, where.size() - ending(0).size());
  for (int64_t i = 1; i < count; ++i) {
    const std::filesystem::path next = stem + ending(i);
    require(path_exists(next), "{}: {} is missing, one of {} parts; put all parts into one folder", where,
            next.filename().string(), count);
    parts_.push_back(std::unique_ptr<const GgufFile>(new GgufFile(next, OneFile{})));
    const GgufFile& file = *parts_.back();
    require(file.integer(kSplitPart, -1) == i && file.integer(kSplitCount, -1) == count,
            "{}: the name indicates part {} of {}, but the metadata differs", next.string(), i + 1, count);
    for (const TensorView& tensor : file.tensors_) {
      require(tensor_index_.emplace(tensor.name, tensors_.size()).second, "{}: tensor {} is also in another part",
              next.string(), printable(tensor.name));
      tensors_.push_back(tensor);
    }
  }
  const auto n_tensors = static_cast<int64_t>(tensors_.size());
  const int64_t listed = integer(kSplitTensors, n_tensors);
  require(listed == n_tensors, "{}: {} is {}, but the {} parts have {} tensors", where, kSplitTensors, listed, count,
          n_tensors);
}

uint64_t GgufFile::size() const {
  uint64_t bytes = file_.bytes().size();
  for (const auto& part : parts_) bytes += part->size();
  return bytes;
}

std::vector<const MappedFile*> GgufFile::mapped() const {
  std::vector<const MappedFile*> files{&file_};
  for (const auto& part : parts_) files.push_back(&part->file_);
  return files;
}

const GgufValue* GgufFile::find(const std::string& key) const {
  const auto it = key_index_.find(key);
  return it == key_index_.end() ? nullptr : &metadata_[it->second].second;
}

const TensorView* GgufFile::find_tensor(const std::string& name) const {
  const auto it = tensor_index_.find(name);
  return it == tensor_index_.end() ? nullptr : &tensors_[it->second];
}

int64_t GgufFile::integer(const std::string& key, std::optional<int64_t> fallback) const {
  const GgufValue* value = find(key);
  if (value == nullptr && fallback) return *fallback;
  require(value != nullptr, "{}: the metadata key {} is missing", path().string(), key);
  return std::visit(
      [&](const auto& v) -> int64_t {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
          require(std::in_range<int64_t>(v), "{}: {} is {}, which is too large", path().string(), key, v);
          return static_cast<int64_t>(v);
        } else {
          fail("{}: the metadata key {} is not an integer", path().string(), key);
        }
      },
      *value);
}

float GgufFile::real(const std::string& key, std::optional<float> fallback) const {
  const GgufValue* value = find(key);
  if (value == nullptr && fallback) return *fallback;
  require(value != nullptr, "{}: the metadata key {} is missing", path().string(), key);
  if (const auto* f = std::get_if<float>(value)) return *f;
  if (const auto* d = std::get_if<double>(value)) return static_cast<float>(*d);
  fail("{}: the metadata key {} is not a floating-point number", path().string(), key);
}

bool GgufFile::boolean(const std::string& key, std::optional<bool> fallback) const {
  if (fallback && find(key) == nullptr) return *fallback;
  const bool* flag = get<bool>(key);
  require(flag != nullptr, "{}: the metadata key {} is missing or not a boolean", path().string(), key);
  return *flag;
}

const std::string& GgufFile::string(const std::string& key) const {
  const auto* text = get<std::string>(key);
  require(text != nullptr, "{}: the metadata key {} is missing or not a string", path().string(), key);
  return *text;
}

template <typename Item>
const std::vector<Item>& GgufFile::list(const std::string& key) const {
  const auto* array = get<GgufArray>(key);
  const auto* items = array == nullptr ? nullptr : std::get_if<std::vector<Item>>(&array->items);
  constexpr const char* kOf = std::is_same_v<Item, std::string> ? "strings"
                              : std::is_floating_point_v<Item>  ? "32-bit floating-point numbers"
                                                                : "32-bit integers";
  require(items != nullptr, "{}: the metadata key {} is missing or not a list of {}", path().string(), key, kOf);
  return *items;
}
template const std::vector<std::string>& GgufFile::list(const std::string& key) const;
template const std::vector<float>& GgufFile::list(const std::string& key) const;
template const std::vector<int32_t>& GgufFile::list(const std::string& key) const;

void write_gguf(OutputFile& out, GgufMetadata metadata, const TensorStream& stream) {
  const std::vector<TensorView>& tensors = stream.tensors;
  std::erase_if(metadata, [](const auto& entry) { return entry.first == "general.alignment"; });
  std::set<std::string_view> keys;
  for (const auto& [key, value] : metadata) {
    require(keys.insert(key).second, "duplicate metadata key {}", printable(key));
  }
  require_writable(tensors);
  for (const TensorView& t : tensors) {
    const bool empty = std::ranges::count(t.shape, 0) > 0;
    require(!t.shape.empty() && t.shape.size() <= 4 && !empty && info(t.type).ggml_id >= 0,
            "a GGUF cannot store tensor {} of shape {} and type {}", printable(t.name), shape_string(t.shape),
            info(t.type).name);
  }
  out.put<uint32_t>(kMagic);
  out.put<uint32_t>(3);
  out.put<uint64_t>(tensors.size());
  out.put<uint64_t>(metadata.size());
  for (const auto& [key, value] : metadata) {
    put_string(out, key);
    out.put<uint32_t>(static_cast<uint32_t>(value.index()));
    std::visit([&](const auto& v) { put_value(out, v); }, value);
  }
  uint64_t offset = 0;
  for (const TensorView& t : tensors) {
    put_string(out, t.name);
    out.put<uint32_t>(static_cast<uint32_t>(t.shape.size()));
    for (auto d = t.shape.rbegin(); d != t.shape.rend(); ++d) out.put<uint64_t>(static_cast<uint64_t>(*d));
    out.put<uint32_t>(static_cast<uint32_t>(info(t.type).ggml_id));
    out.put<uint64_t>(offset);
    offset = aligned(offset + tensor_bytes(t.type, t.shape).value(), kWrittenAlignment);
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    out.pad_to(aligned(out.offset(), kWrittenAlignment));
    out.write(checked_bytes(stream, i));
  }
  out.pad_to(aligned(out.offset(), kWrittenAlignment));
}

}  // namespace folio::core
