// The settings of a run that are one of a few names: each is an enum, and its names stand once, in its order.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "core/error.h"

namespace folio::train {

enum class Precision { Auto, F32, Bf16 };  ///< of matrix products; Auto: faster_precision()
enum class DeviceKind { Cpu, Cuda };
enum class OptimizerKind { AdamW, Muon, GaLore };
enum class Balance { Loss, Bias };  ///< of experts: balance.h
enum class AcrossDocuments { False, True, Mask };
enum class ScheduleKind { Cosine, Linear, Wsd, Constant };
enum class Exported { Best, Last };
enum class LogStyle { Progress, Epoch };

template <typename E>
inline constexpr std::array<std::string_view, 0> kNames{};
template <>
inline constexpr std::array<std::string_view, 3> kNames<Precision>{"auto", "f32", "bf16"};
template <>
inline constexpr std::array<std::string_view, 2> kNames<DeviceKind>{"cpu", "cuda"};
template <>
inline constexpr std::array<std::string_view, 3> kNames<OptimizerKind>{"adamw", "muon", "galore"};
template <>
inline constexpr std::array<std::string_view, 2> kNames<Balance>{"loss", "bias"};
template <>
inline constexpr std::array<std::string_view, 3> kNames<AcrossDocuments>{"false", "true", "mask"};
template <>
inline constexpr std::array<std::string_view, 4> kNames<ScheduleKind>{"cosine", "linear", "wsd", "constant"};
template <>
inline constexpr std::array<std::string_view, 2> kNames<Exported>{"best", "last"};
template <>
inline constexpr std::array<std::string_view, 2> kNames<LogStyle>{"progress", "epoch"};

template <typename E>
concept Choice = (kNames<E>.size() > 0);

template <Choice E>
[[nodiscard]] std::string_view name_of(E choice) {
  return kNames<E>.at(static_cast<size_t>(choice));
}

/// Throws core::Error that lists the names.
template <Choice E>
[[nodiscard]] E choice_named(std::string_view name) {
  for (size_t i = 0; i < kNames<E>.size(); ++i) {
    if (kNames<E>[i] == name) return static_cast<E>(i);
  }
  core::fail("\"{}\" has to be one of: {}", core::printable(name), fmt::join(kNames<E>, ", "));
}

}  // namespace folio::train

// "true" and "false" are JSON's own.
template <folio::train::Choice E>
struct nlohmann::adl_serializer<E> {
  template <typename Json>
  static void to_json(Json& json, E choice) {
    const auto name = folio::train::name_of(choice);
    if (name == "true" || name == "false")
      json = name == "true";
    else
      json = name;
  }
  template <typename Json>
  static void from_json(const Json& json, E& choice) {
    choice = folio::train::choice_named<E>(json.is_boolean() ? json.dump() : json.template get<std::string>());
  }
};

template <folio::train::Choice E>
struct fmt::formatter<E> : fmt::formatter<std::string_view> {
  auto format(E choice, fmt::format_context& context) const {
    return fmt::formatter<std::string_view>::format(folio::train::name_of(choice), context);
  }
};
