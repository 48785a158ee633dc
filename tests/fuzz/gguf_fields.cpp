#include "tests/fuzz/gguf_fields.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "core/tensor_view.h"

namespace folio::fuzz {
namespace {

constexpr int kMaxDepth = 8;

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  [[nodiscard]] bool ok() const { return ok_; }
  [[nodiscard]] size_t offset() const { return offset_; }

  std::string take(uint64_t n) {
    if (!ok_ || n > bytes_.size() - offset_) {
      ok_ = false;
      return {};
    }
    offset_ += n;
    return std::string(bytes_.substr(offset_ - n, n));
  }
  template <typename T>
  T number() {
    T value{};
    const std::string raw = take(sizeof(T));
    if (ok_) std::memcpy(&value, raw.data(), sizeof(T));
    return value;
  }
  std::string string() { return take(number<uint64_t>()); }

  GgufFieldValue value(uint32_t type, int depth) {
    GgufFieldValue v{.type = type, .bytes = {}, .item_type = 0, .items = {}};
    if (type == kGgufString) {
      v.bytes = string();
    } else if (type == kGgufArray) {
      v.item_type = number<uint32_t>();
      const auto count = number<uint64_t>();
      ok_ = ok_ && depth < kMaxDepth && v.item_type < kGgufTypes;
      for (uint64_t i = 0; i < count && ok_; ++i) v.items.push_back(value(v.item_type, depth + 1));
    } else {
      ok_ = ok_ && gguf_scalar_bytes(type) > 0;
      v.bytes = take(gguf_scalar_bytes(type));
    }
    return v;
  }

 private:
  std::string_view bytes_;
  size_t offset_ = 0;
  bool ok_ = true;
};

class Writer {
 public:
  template <typename T>
  void number(T value) {
    out.numbers.emplace_back(out.bytes.size(), sizeof(T));
    out.bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }
  void string(const std::string& text) {
    number<uint64_t>(text.size());
    out.bytes += text;
  }
  void value(const GgufFieldValue& v) {
    if (v.type == kGgufString) {
      string(v.bytes);
    } else if (v.type == kGgufArray) {
      number(v.item_type);
      number<uint64_t>(v.items.size());
      for (const GgufFieldValue& item : v.items) value(item);
    } else {
      out.bytes += v.bytes;
    }
  }
  GgufBytes out;
};

uint64_t round_up(uint64_t n, uint64_t alignment) { return (n + alignment - 1) / alignment * alignment; }

// Returns the size in bytes of a tensor's data, but at most `limit`. Counts one byte per element of an unknown type.
uint64_t data_bytes(const GgufFieldTensor& tensor, uint64_t limit) {
  const uint64_t most = 16 * limit;  // every type has at least 1/16 byte per element
  uint64_t elements = 1;
  for (const uint64_t d : tensor.dims) elements = d != 0 && elements > most / d ? most : elements * d;
  const std::optional<core::DType> type = core::dtype_from_ggml(tensor.type);
  if (!type) return std::min(limit, elements);
  const core::DTypeInfo& info = core::info(*type);
  return std::min(limit, elements / info.block_elements * info.block_bytes);
}

}  // namespace

size_t gguf_scalar_bytes(uint32_t type) {
  constexpr std::array<size_t, kGgufTypes> kBytes{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return type < kGgufTypes ? kBytes[type] : 0;
}

std::optional<GgufFields> parse_gguf_fields(std::string_view bytes) {
  Reader in(bytes);
  GgufFields fields;
  fields.magic = in.number<uint32_t>();
  fields.version = in.number<uint32_t>();
  const auto n_tensors = in.number<uint64_t>();
  const auto n_pairs = in.number<uint64_t>();
  for (uint64_t i = 0; i < n_pairs && in.ok(); ++i) {
    GgufFieldPair pair{.key = in.string(), .value = {}};
    const auto type = in.number<uint32_t>();
    pair.value = in.value(type, 0);
    fields.pairs.push_back(std::move(pair));
  }
  for (uint64_t i = 0; i < n_tensors && in.ok(); ++i) {
    GgufFieldTensor tensor;
    tensor.name = in.string();
    const auto n_dims = in.number<uint32_t>();
    for (uint32_t d = 0; d < n_dims && in.ok(); ++d) tensor.dims.push_back(in.number<uint64_t>());
    tensor.type = in.number<uint32_t>();
    tensor.offset = in.number<uint64_t>();
    fields.tensors.push_back(std::move(tensor));
  }
  if (!in.ok()) return std::nullopt;
  const uint64_t start = round_up(in.offset(), alignment_of(fields));
  if (start < bytes.size()) fields.data = bytes.substr(start);
  return fields;
}

GgufBytes serialize(const GgufFields& fields) {
  Writer out;
  out.number(fields.magic);
  out.number(fields.version);
  out.number<uint64_t>(fields.tensors.size());
  out.number<uint64_t>(fields.pairs.size());
  for (const GgufFieldPair& pair : fields.pairs) {
    out.string(pair.key);
    out.number(pair.value.type);
    out.value(pair.value);
  }
  for (const GgufFieldTensor& tensor : fields.tensors) {
    out.string(tensor.name);
    out.number(static_cast<uint32_t>(tensor.dims.size()));
    for (const uint64_t d : tensor.dims) out.number(d);
    out.number(tensor.type);
    out.number(tensor.offset);
  }
  if (!fields.data.empty()) out.out.bytes.resize(round_up(out.out.bytes.size(), alignment_of(fields)));
  out.out.bytes += fields.data;
  return std::move(out.out);
}

uint64_t alignment_of(const GgufFields& fields) {
  for (const GgufFieldPair& pair : fields.pairs) {
    if (pair.key != "general.alignment" || pair.value.bytes.size() != 4) continue;
    uint32_t alignment = 0;
    std::memcpy(&alignment, pair.value.bytes.data(), 4);
    if (std::has_single_bit(alignment) && alignment <= 4096) return alignment;
  }
  return 32;
}

void lay_out(GgufFields& fields, size_t max_data) {
  const uint64_t alignment = alignment_of(fields);
  uint64_t end = 0;
  for (GgufFieldTensor& tensor : fields.tensors) {
    tensor.offset = round_up(end, alignment);
    end = tensor.offset + data_bytes(tensor, max_data);
  }
  fields.data.resize(std::min<uint64_t>(end, max_data));
}

}  // namespace folio::fuzz
