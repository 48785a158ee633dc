// Enums for the settings of a run that have a fixed set of values. names_of() lists the names in the enum's order.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "core/error.h"

namespace folio::train {

enum class Precision { Auto, F32, Bf16 };  ///< type of matrix products; Auto: the faster one on the device
enum class DeviceKind { Cpu, Cuda };
enum class OptimizerKind { AdamW, Muon, GaLore };
enum class Balance { Loss, Bias };  ///< balances experts by an auxiliary loss or by a selection bias
enum class AcrossDocuments { False, True, Mask };
enum class ScheduleKind { Cosine, Linear, Wsd, Constant };
enum class Exported { Best, Last };
enum class LogStyle { Progress, Epoch };

constexpr std::array<std::string_view, 3> names_of(Precision) { return {"auto", "f32", "bf16"}; }
constexpr std::array<std::string_view, 2> names_of(DeviceKind) { return {"cpu", "cuda"}; }
constexpr std::array<std::string_view, 3> names_of(OptimizerKind) { return {"adamw", "muon", "galore"}; }
constexpr std::array<std::string_view, 2> names_of(Balance) { return {"loss", "bias"}; }
constexpr std::array<std::string_view, 3> names_of(AcrossDocuments) { return {"false", "true", "mask"}; }
constexpr std::array<std::string_view, 4> names_of(ScheduleKind) { return {"cosine", "linear", "wsd", "constant"}; }
constexpr std::array<std::string_view, 2> names_of(Exported) { return {"best", "last"}; }
constexpr std::array<std::string_view, 2> names_of(LogStyle) { return {"progress", "epoch"}; }

template <typename E>
concept Choice = requires(E choice) { names_of(choice); };

template <Choice E>
[[nodiscard]] std::string_view name_of(E choice) {
  return names_of(choice).at(static_cast<size_t>(choice));
}

}  // namespace folio::train

// Stores a choice in JSON as its name, except that "true" and "false" become booleans. Reading an unknown name throws
// core::Error.
template <folio::train::Choice E>
struct nlohmann::adl_serializer<E> {
  template <typename Json>
  static void to_json(Json& json, E choice) {
    const auto name = folio::train::name_of(choice);
    json = name == "true" || name == "false" ? Json(name == "true") : Json(name);
  }
  template <typename Json>
  static void from_json(const Json& json, E& choice) {
    const std::string name = json.is_boolean() ? json.dump() : json.template get<std::string>();
    const auto names = names_of(choice);
    const auto found = std::ranges::find(names, name);
    folio::core::require(found != names.end(), "\"{}\" is unknown, expected one of: {}", folio::core::printable(name),
                         fmt::join(names, ", "));
    choice = static_cast<E>(found - names.begin());
  }
};

template <folio::train::Choice E>
struct fmt::formatter<E> : fmt::formatter<std::string_view> {
  auto format(E choice, fmt::format_context& context) const {
    return fmt::formatter<std::string_view>::format(folio::train::name_of(choice), context);
  }
};
