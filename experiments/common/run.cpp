#include <ATen/Parallel.h>

#include "experiments/common/report.h"

namespace folio::experiments {

int run(int argc, char** argv, const std::string& name, const std::function<void(Report&)>& study) {
  at::set_num_threads(1);
  return run_study(argc, argv, name, study);
}

}  // namespace folio::experiments
