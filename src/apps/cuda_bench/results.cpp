#include "apps/cuda_bench/results.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "core/error.h"

namespace folio::infer::gpu::bench {
namespace {

constexpr size_t kLeastWidth = 9;

std::string cell(const Record& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return fmt::format("{:.4g}", value.get<double>());
  return value.is_null() ? "-" : value.dump();
}

size_t width_of(const std::string& column) { return column == "kernel" ? 18 : std::max(kLeastWidth, column.size()); }

}  // namespace

Results::Results(const std::string& json_file) {
  if (json_file.empty()) return;
  json_.open(json_file, std::ios::app);
  core::require(json_.is_open(), "{}: cannot write; choose another file", json_file);
}

void Results::add(const Record& row) {
  std::vector<std::string> columns;
  for (const auto& [name, value] : row.items()) columns.push_back(name);
  std::string line;
  if (columns != columns_) {
    columns_ = columns;
    line += "\n";
    for (const std::string& name : columns) line += fmt::format("{:<{}} ", name, width_of(name));
    line += "\n";
  }
  for (const auto& [name, value] : row.items()) line += fmt::format("{:<{}} ", cell(value), width_of(name));
  fmt::print("{}\n", line);
  std::fflush(stdout);
  if (json_.is_open()) json_ << row.dump() << std::endl;
}

}  // namespace folio::infer::gpu::bench
