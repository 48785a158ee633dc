#include "core/json.h"

#include <set>
#include <vector>

namespace folio::core {

namespace {

template <typename Json>
Json parse(std::string_view text, const std::string& where, size_t max_keys, std::string_view leave_out) {
  constexpr int kMaxDepth = 64;
  constexpr size_t kMaxValues = size_t{1} << 22U;  // limits memory; the largest tokenizer.json files have fewer
  size_t n_values = 0;
  std::vector<std::set<std::string>> keys;  // keys seen in each enclosing object, by depth
  bool left_out = false;
  const auto watch = [&](int depth, typename Json::parse_event_t event, Json& parsed) {
    using Event = typename Json::parse_event_t;
    const bool opens =
        event == Event::object_start || event == Event::array_start;  // `depth` does not yet count the opened value
    if (depth + (opens ? 1 : 0) > kMaxDepth) fail("{}: JSON nested deeper than {}", where, kMaxDepth);
    if (++n_values > kMaxValues) fail("{}: more than {} values and keys", where, kMaxValues);
    if (event == Event::object_start) {  // also drops the keys of skipped objects, which have no end event
      keys.resize(static_cast<size_t>(depth));
      keys.emplace_back();
    }
    if (event != Event::key) return true;
    const auto& key = parsed.template get_ref<const std::string&>();
    std::set<std::string>& others = keys[static_cast<size_t>(depth) - 1];
    if (!others.insert(key).second) fail("{}: the key \"{}\" occurs twice", where, printable(key));
    if (depth == 1) left_out = !leave_out.empty() && key == leave_out;
    if (!left_out && others.size() > max_keys) fail("{}: an object has more than {} keys", where, max_keys);
    return depth > 1 || !left_out;
  };
  try {
    return Json::parse(text.begin(), text.end(), watch);
  } catch (const nlohmann::json::exception& error) {
    fail("{}: not valid JSON: {}", where, message_of(error));
  }
}

}  // namespace

std::string message_of(const nlohmann::json::exception& error) {
  const std::string_view text = error.what();
  return printable(text.substr(text.find("] ") + 2), 160);
}

nlohmann::json parse_json(std::string_view text, const std::string& where) {
  return parse<nlohmann::json>(text, where, text.size(), {});
}

OrderedJson parse_ordered_json(std::string_view text, const std::string& where, std::string_view leave_out) {
  return parse<OrderedJson>(text, where, 1024, leave_out);
}

const nlohmann::json& json_at(const nlohmann::json& object, const std::string& key, const std::string& where) {
  const auto found = object.find(key);  // find() returns end() if `object` isn't an object
  require(found != object.end(), "{}: the key \"{}\" is missing", where, key);
  return *found;
}

const nlohmann::json& json_list(const nlohmann::json& object, const std::string& key, const std::string& where) {
  const nlohmann::json& list = json_at(object, key, where);
  require(list.is_array(), "{}: the key \"{}\" has a value of the wrong type", where, key);
  return list;
}

}  // namespace folio::core
