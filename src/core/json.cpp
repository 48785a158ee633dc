#include "core/json.h"

#include <set>
#include <vector>

namespace folio::core {

nlohmann::json parse_json(std::string_view text, const std::string& where) {
  constexpr int kMaxDepth = 64;
  constexpr size_t kMaxValues = size_t{1}
                                << 22U;  // each takes at least 16 bytes; the largest vocabularies have a million
  size_t n_values = 0;
  std::vector<std::set<std::string>> keys;  // of the objects that enclose this place
  const auto watch = [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
    using Event = nlohmann::json::parse_event_t;
    const bool opens =
        event == Event::object_start || event == Event::array_start;  // reported with the depth outside of it
    if (depth + (opens ? 1 : 0) > kMaxDepth) fail("{}: the JSON nests deeper than {}", where, kMaxDepth);
    if (++n_values > kMaxValues) fail("{}: more than {} values and keys are not read here", where, kMaxValues);
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end) keys.pop_back();
    if (event == Event::key && !keys.back().insert(parsed.get<std::string>()).second) {
      fail("{}: the key \"{}\" occurs twice", where, printable(parsed.get<std::string>()));
    }
    return true;
  };
  try {
    return nlohmann::json::parse(text.begin(), text.end(), watch);
  } catch (const nlohmann::json::exception& error) {
    fail("{}: not valid JSON: {}", where, printable(error.what(), 120));
  }
}

const nlohmann::json& json_at(const nlohmann::json& object, const std::string& key, const std::string& where) {
  const auto found = object.find(key);  // end() if it is not an object
  require(found != object.end(), "{}: the key \"{}\" is missing", where, key);
  return *found;
}

const nlohmann::json& json_list(const nlohmann::json& object, const std::string& key, const std::string& where) {
  const nlohmann::json& list = json_at(object, key, where);
  require(list.is_array(), "{}: the key \"{}\" has a value of the wrong type", where, key);
  return list;
}

}  // namespace folio::core
