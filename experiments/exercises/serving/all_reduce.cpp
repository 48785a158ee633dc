// All-reduce: the sum over all ranks, at all ranks. Each of several processes, the ranks, has an array of the same
// length, for example the gradients of one model on different data. Afterwards each rank has the elementwise sum of all
// arrays.
//
// The ranks form a ring: rank r sends only to rank r + 1, the last to rank 0, and receives from the previous rank. The
// array is divided into as many chunks as there are ranks, of nearly equal length, at the same offsets on all ranks.
// Chunks may be empty. With p ranks there are two rounds of p - 1 passes each:
//
//     round 1, step s    rank r sends chunk r - s, and adds the received chunk r - s - 1 to its own
//     round 2, step s    rank r sends chunk r + 1 - s, and replaces its chunk r - s by the received one
//
// with chunk indices modulo p: -1 is the last chunk. After round 1, only rank r has the sum of chunk r + 1. Example
// with 2 ranks, (1, 2) and (10, 20):
//
//              rank 0      rank 1      sent
//     round 1  (1, 2)      (10, 20)    rank 0: chunk 0 = (1)        rank 1: chunk 1 = (20)
//     round 2  (1, 22)     (11, 20)    rank 0: chunk 1 = (22)       rank 1: chunk 0 = (11)
//     end      (11, 22)    (11, 22)
//
// Each rank sends less than twice the size of its array, for any number of ranks. If whole arrays went around the
// ring, a rank would send p - 1 times that size.
//
// Read first: experiments/27_ranks/README.md.
// Check it with: make exercise N=all_reduce
#include <algorithm>

#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {

// Replaces x by the sum of all ranks' x. All ranks call all_reduce() at the same time. ring.pass() sends any number of
// elements, including 0, then waits for the previous rank's elements, so all ranks must call pass() equally often.
void all_reduce(Floats& x, const Ring& ring) {
  throw Unfilled(
      "all_reduce is still to be written, in experiments/exercises/serving/all_reduce.cpp.\n"
      "Say first where chunk i begins and ends. Then round 1, which adds, and round 2, which replaces.");
}

}  // namespace folio::exercises
