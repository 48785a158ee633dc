#include "core/formats/safetensors.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file_io.h"
#include "core/json.h"

namespace folio::core {
namespace {

constexpr uint64_t kMaxHeader = 100'000'000;  // limit of the format, in bytes
constexpr uint64_t kHeaderAlignment = 64;     // alignment of the first tensor, in bytes

TensorView read_entry(const std::string& where, const std::string& name, const nlohmann::json& entry,
                      std::span<const std::byte> data) {
  TensorView tensor{.name = name, .shape = {}, .bytes = {}};
  const auto bad = [&](const std::string& what) { fail("{}: tensor {}: {}", where, printable(name), what); };
  if (!entry.is_object() || !entry.contains("dtype") || !entry["dtype"].is_string() || !entry.contains("shape") ||
      !entry["shape"].is_array() || !entry.contains("data_offsets") || !entry["data_offsets"].is_array() ||
      entry["data_offsets"].size() != 2) {
    bad("the header entry needs dtype, shape and two data_offsets");
  }
  const auto type = dtype_from_safetensors(entry["dtype"].get<std::string>());
  if (!type) bad("dtype " + printable(entry["dtype"].get<std::string>()) + " is not supported");
  tensor.type = *type;
  for (const auto& d : entry["shape"]) {
    if (!d.is_number_unsigned() || d.get<uint64_t>() > INT64_MAX) bad("a dimension is not a non-negative integer");
    tensor.shape.push_back(d.get<int64_t>());
  }
  for (const auto& o : entry["data_offsets"]) {
    if (!o.is_number_unsigned()) bad("an offset is not a non-negative integer");
  }
  const auto begin = entry["data_offsets"][0].get<uint64_t>();
  const auto end = entry["data_offsets"][1].get<uint64_t>();
  const auto bytes = tensor_bytes(tensor.type, tensor.shape);
  if (!bytes || begin > end || end > data.size() || end - begin != *bytes) {
    bad(fmt::format("shape {} and data_offsets [{}, {}] do not match each other or the file",
                    shape_string(tensor.shape), begin, end));
  }
  tensor.bytes = data.subspan(begin, *bytes);
  return tensor;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : file_(path) {
  const std::string where = path.string();
  const auto bytes = file_.bytes();
  require(bytes.size() >= 8, "{}: too short for a safetensors file", where);
  uint64_t header_size = 0;
  std::memcpy(&header_size, bytes.data(), 8);
  require(header_size <= kMaxHeader && header_size <= bytes.size() - 8,
          "{}: a header of {} bytes does not fit in the file; it is damaged or not safetensors", where, header_size);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + 8, header_size);
  const nlohmann::json header = parse_json(text, where + ": header");
  require(header.is_object(), "{}: the header is not a JSON object", where);
  const auto data = bytes.subspan(8 + header_size);
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      require(entry.is_object(), "{}: __metadata__ is not an object", where);
      for (const auto& [key, value] : entry.items()) {
        require(value.is_string(), "{}: __metadata__.{} is not a string", where, printable(key));
        metadata_[key] = value.get<std::string>();
      }
    } else {
      tensors_.push_back(read_entry(where, name, entry, data));
    }
  }
  // Sorts by offset, then by size: an empty tensor must come before another tensor at the same offset.
  const auto place = [&](const TensorView& t) { return std::pair(t.bytes.data() - data.data(), t.bytes.size()); };
  std::sort(tensors_.begin(), tensors_.end(),
            [&](const TensorView& a, const TensorView& b) { return place(a) < place(b); });
  size_t end = 0;
  for (const TensorView& t : tensors_) {
    const auto begin = static_cast<size_t>(place(t).first);
    require(begin >= end, "{}: tensor {} overlaps the one before it", where, printable(t.name));
    require(begin == end, "{}: the data bytes {} to {} belong to no tensor", where, end, begin);
    end = begin + t.bytes.size();
  }
  require(end == data.size(), "{}: the data bytes from {} to {} belong to no tensor", where, end, data.size());
}

const TensorView* SafetensorsFile::find_tensor(const std::string& name) const {
  const auto it = std::find_if(tensors_.begin(), tensors_.end(), [&](const TensorView& t) { return t.name == name; });
  return it == tensors_.end() ? nullptr : &*it;
}

void write_safetensors(const std::filesystem::path& path, const TensorStream& stream,
                       const std::map<std::string, std::string>& metadata, uint64_t alignment) {
  const std::vector<TensorView>& tensors = stream.tensors;
  require_writable(tensors);
  for (const TensorView& t : tensors) {
    const bool reserved = t.name == "__metadata__" || t.name.starts_with("__pad__.");
    require(!reserved && !info(t.type).safetensors.empty(), "{}: a safetensors file cannot store {} of type {}",
            path.string(), printable(t.name), info(t.type).name);
  }
  nlohmann::ordered_json header;
  header["__metadata__"] = metadata;
  uint64_t offset = 0;
  std::vector<uint64_t> places;
  size_t n_pads = 0;
  for (const TensorView& t : tensors) {
    const uint64_t begin = aligned(offset, alignment);
    if (begin != offset) {
      header[fmt::format("__pad__.{}", n_pads++)] = {
          {"dtype", "U8"}, {"shape", {begin - offset}}, {"data_offsets", {offset, begin}}};
    }
    offset = begin + tensor_bytes(t.type, t.shape).value();
    header[t.name] = {{"dtype", info(t.type).safetensors}, {"shape", t.shape}, {"data_offsets", {begin, offset}}};
    places.push_back(begin);
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception&) {
    fail("{}: a tensor's name or the metadata is not UTF-8", path.string());
  }
  text.resize(aligned(8 + text.size(), kHeaderAlignment) - 8, ' ');
  write_file_atomically(path, [&](OutputFile& out) {
    out.put<uint64_t>(text.size());
    out.write(text);
    const uint64_t start = out.offset();
    for (size_t i = 0; i < places.size(); ++i) {
      out.pad_to(start + places[i]);
      out.write(checked_bytes(stream, i));
    }
  });
}

}  // namespace folio::core
