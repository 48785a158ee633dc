// schedule_tool RANKS CHUNKS MICROBATCHES: prints the interleaved schedule, one line for each rank. F0.3 is the forward
// pass of microbatch 3 through stage 0. tests/apps/schedule_test.py compares it with PyTorch's schedule.
#include <fmt/format.h>

#include <exception>

#include "train/parallel/schedule.h"

int main(int argc, char** argv) {
  using namespace folio::train::parallel;
  if (argc != 4) return 2;
  try {
    const int64_t ranks = std::atoll(argv[1]);
    const Schedule schedule = interleaved(ranks, std::atoll(argv[2]), std::atoll(argv[3]));
    for (int64_t rank = 0; rank < ranks; ++rank) {
      for (const Action& action : schedule[static_cast<size_t>(rank)]) {
        fmt::print("{}{}.{} ", action.kind == Action::Kind::Forward ? 'F' : 'B', action.chunk * ranks + rank,
                   action.microbatch);
      }
      fmt::print("\n");
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
