// What all ranks of a group tell each other at once: in a round each gives bytes, and gets those of all others. By
// messages (peers.h), or through memory that the ranks of one host share.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "infer/ranks/peers.h"

namespace folio::infer {

class Rounds {
 public:
  /// Gets what the member `from` of the group gave, if that is anything.
  using Take = std::function<void(size_t from, std::span<const std::byte> bytes)>;

  virtual ~Rounds() = default;
  /// All members get `to_all`, and the first one `to_first`, too. Returns when this member has what it gets: all have
  /// come. Throws MachineLost as Peers does, if one has not within the timeout.
  virtual void meet(std::span<const std::byte> to_all, std::span<const std::byte> to_first, const Take& take,
                    std::chrono::seconds timeout) = 0;
};

/// Among the ranks of `group`, of which this one is one; every one of them calls it, in the same order of groups.
/// `channel` is this group's alone. Through shared memory where the world wants it and all are on one host that has
/// room for it.
[[nodiscard]] std::unique_ptr<Rounds> make_rounds(Peers& peers, Channel channel, std::vector<size_t> group);

}  // namespace folio::infer
