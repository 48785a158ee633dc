// The sum over all ranks, at all ranks. Several processes, the ranks, have an array each, all of one length: the
// gradients of one model on different texts, for example. Afterwards each array is the sum of all, number by number.
// This is called an all-reduce.
//
// The ranks stand in a ring: rank r can only send to rank r + 1, the last to rank 0, and gets what the one before has
// sent. The array is cut into as many chunks as there are ranks, as equal as possible; where their lengths differ, or
// some are empty, all ranks cut alike. With p ranks there are two rounds of p - 1 passes each:
//
//     round 1, step s    rank r sends chunk r - s, and adds the chunk r - s - 1 that comes to its own
//     round 2, step s    rank r sends chunk r + 1 - s, and puts the chunk r - s that comes in place of its own
//
// where chunks, too, go round: -1 is the last one. After round 1 rank r has the sum of chunk r + 1, and nobody else
// has. For example 2 ranks with (1, 2) and (10, 20):
//
//              rank 0      rank 1      what is sent
//     round 1  (1, 2)      (10, 20)    rank 0: its chunk 0, 1       rank 1: its chunk 1, 20
//     round 2  (1, 22)     (11, 20)    rank 0: its chunk 1, 22      rank 1: its chunk 0, 11
//     end      (11, 22)    (11, 22)
//
// A rank sends its array nearly twice, however many ranks there are. If all sent their whole arrays round, it would be
// p - 1 times.
//
// Read first: experiments/27_ranks/README.md.
// Check it with: make exercise N=all_reduce
#include <algorithm>

#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {

// x becomes the sum of all ranks' x. All ranks call it at the same time. ring.pass() sends some numbers, which may be
// none, and waits for those that come: all ranks have to call it equally often.
void all_reduce(Floats& x, const Ring& ring) {
  throw Unfilled(
      "all_reduce is still to be written, in experiments/exercises/serving/all_reduce.cpp.\n"
      "Say first where chunk i begins and ends. Then round 1, which adds, and round 2, which replaces.");
}

}  // namespace folio::exercises
