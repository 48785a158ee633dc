#include <fmt/format.h>
#include <torch/csrc/autograd/profiler_kineto.h>
#include <torch/types.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/file_io.h"
#include "core/file_status.h"
#include "core/temporary_path.h"
#include "train/profile/profile.h"

namespace folio::train {
namespace {

namespace fs = std::filesystem;
namespace profiler = torch::autograd::profiler;
using nlohmann::json;
using torch::profiler::impl::ActivityType;

void start_recording() {
  ::setenv("KINETO_LOG_LEVEL", "99", /*overwrite=*/0);  // no start and stop messages on stderr
  const torch::profiler::impl::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO);
  profiler::prepareProfiler(config, {ActivityType::CPU});
  profiler::enableProfiler(config, {ActivityType::CPU});
}

// Stops recording and returns the trace as JSON. Uses a temporary file, since Kineto can only write to a file.
std::string stop_recording() {
  std::error_code error;
  const fs::path folder = fs::temp_directory_path(error);
  core::require(!error, "cannot find the folder of temporary files: {}; set TMPDIR", error.message());
  std::string name = (folder / "folio-trace-XXXXXX").string();
  core::require(::mkdtemp(name.data()) != nullptr, "cannot create {}: {}", name, std::strerror(errno));
  const core::TemporaryPath scratch(name);
  const fs::path file = scratch.path() / "trace.json";
  profiler::disableProfiler()->save(file);
  return core::read_text_file(file, size_t{4} << 30U);
}

std::vector<std::string> gathered(const std::string& text, parallel::Group& all) {
  const torch::Tensor sizes = all.gather(torch::full({1}, static_cast<int64_t>(text.size()), torch::kInt64), 0);
  const torch::Tensor bytes = torch::zeros({1, sizes.max().item<int64_t>()}, torch::kByte);
  std::memcpy(bytes.data_ptr(), text.data(), text.size());
  const torch::Tensor texts = all.gather(bytes, 0);
  std::vector<std::string> result;
  for (int64_t rank = 0; rank < all.size(); ++rank) {
    result.emplace_back(reinterpret_cast<const char*>(texts[rank].data_ptr()),
                        static_cast<size_t>(sizes[rank].item<int64_t>()));
  }
  return result;
}

// Merges the ranks' traces into one with a process per rank. Drops all events except operations and thread names.
json merged(const std::vector<std::string>& traces) {
  json events = json::array();
  for (size_t rank = 0; rank < traces.size(); ++rank) {
    events.push_back(
        {{"ph", "M"}, {"name", "process_name"}, {"pid", rank}, {"args", {{"name", fmt::format("rank {}", rank)}}}});
    json trace = json::parse(traces[rank]);
    for (json& event : trace.at("traceEvents")) {
      const bool is_operation = event.at("ph") == "X" && event.at("cat") != "Trace";
      if (!is_operation && event.at("name") != "thread_name") continue;
      event["pid"] = rank;
      if (is_operation) event.erase("args");
      events.push_back(std::move(event));
    }
  }
  return {{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}};
}

}  // namespace

StepTrace::StepTrace(fs::path file, parallel::World& world) : file_(std::move(file)), world_(world) {
  const fs::path folder = core::absolute_path(file_).parent_path();
  core::require(core::is_folder(folder), "--trace {}: the folder {} does not exist", file_.string(), folder.string());
}

StepTrace::~StepTrace() {
  if (recording_) profiler::disableProfiler();
}

void StepTrace::step_begins() {
  if (++n_steps_ != kFirst) return;
  world_.everyone().meet();
  start_recording();
  recording_ = true;
}

void StepTrace::step_ended() {
  if (n_steps_ != kLast) return;
  recording_ = false;
  const std::vector<std::string> traces = gathered(stop_recording(), world_.everyone());
  if (world_.is_first()) core::write_file_atomically(file_, merged(traces).dump());
}

}  // namespace folio::train
