// What every program shares: parsing with one-line errors, exit codes, Ctrl-C.
// Exit codes: 0 done; 1 failed; 2 wrong usage; 130 interrupted.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "infer/engine.h"
#include "infer/sampler.h"

namespace folio::apps {

inline constexpr int kExitInterrupted = 130;

/// Parses the arguments, runs `body` and returns the exit code. Errors become one line on stderr: "NAME: what, …".
int run_program(CLI::App& app, int argc, char** argv, const std::function<int()>& body);

/// A number in [low, high]; NaN is outside of any range.
[[nodiscard]] CLI::Validator in_range(double low, double high);

/// Notes SIGINT from now on; a second one ends the program at once.
void watch_interrupt();
[[nodiscard]] bool interrupted();

/// -m/--model and -t/--threads. Where no model is named, resolve_model() takes the newest run's and says so on stderr.
struct ModelFlags {
  std::string model;
  size_t threads = 0;
};
void add_model_flags(CLI::App& app, ModelFlags& flags);
[[nodiscard]] std::string resolve_model(const ModelFlags& flags);

}  // namespace folio::apps
