// Fuzzes reading an adapter in peft's format. Input: adapter_config.json, a zero byte, adapter_model.safetensors.
#include <algorithm>

#include "core/formats/adapter_files.h"
#include "tests/fuzz/adapters.h"
#include "tests/fuzz/fuzz.h"

namespace folio::fuzz {

bool take(std::string_view input) {
  const core::ModelConfig config = adapted_config();
  const size_t zero = std::min(input.find('\0'), input.size());
  scratch_file("adapter_config.json", input.substr(0, zero));
  scratch_file("adapter_model.safetensors", input.substr(std::min(zero + 1, input.size())));
  const auto folder = scratch_path("");
  core::Adapter adapter;
  if (!accepted([&] { adapter = core::read_peft_adapter(folder, config); }, folder.string())) return false;
  look_at(adapter);
  core::AdapterInfo info = core::read_adapter_info(folder);
  info.targets = core::roles_of(adapter);
  core::write_adapter(folder, config, adapter, info);
  check(same_parts(core::read_peft_adapter(folder, config), adapter), "an adapter is read as it was written");
  const core::AdapterInfo again = core::read_adapter_info(folder);
  check(again.rank == info.rank && again.alpha == info.alpha && again.dropout == info.dropout &&
            again.base == info.base && again.by_root == info.by_root,
        "an adapter's configuration is read as it was written");
  return true;
}

}  // namespace folio::fuzz
