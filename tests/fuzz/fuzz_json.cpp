// Fuzzes the JSON parser, which several formats use, and the reading of an object's values.
#include "core/error.h"
#include "core/json.h"
#include "tests/fuzz/fuzz.h"

namespace folio::fuzz {
namespace {

int depth_of(const nlohmann::json& value) {
  int deepest = 0;
  if (value.is_structured()) {
    for (const auto& item : value) deepest = std::max(deepest, depth_of(item));
  }
  return value.is_structured() ? deepest + 1 : 0;
}

template <typename T>
void get_all(const nlohmann::json& object, const std::string& where) {
  for (const auto& [key, value] : object.items()) {
    if (core::printable(key) != key) continue;  // unprintable keys are never looked up
    accepted([&] { static_cast<void>(core::json_get<T>(object, key, where)); }, where);
  }
}

}  // namespace

bool take(std::string_view input) {
  const std::string where = "f.json";
  nlohmann::json value;
  if (!accepted([&] { value = core::parse_json(input, where); }, where)) return false;
  check(depth_of(value) <= 64, "JSON that is accepted nests at most 64 deep");
  check(core::parse_json(value.dump(), where) == value, "JSON that is written anew is read as the same");
  if (value.is_object() && !value.empty()) {
    switch (value.size() % 4) {  // reads all values as one type, because a wrong type throws, which is slow
      case 0:
        get_all<int32_t>(value, where);
        break;
      case 1:
        get_all<std::string>(value, where);
        break;
      case 2:
        get_all<float>(value, where);
        break;
      default:
        get_all<bool>(value, where);
    }
  }
  return true;
}

}  // namespace folio::fuzz
