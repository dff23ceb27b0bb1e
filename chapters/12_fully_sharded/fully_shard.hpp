// FSDP: each rank of the data-parallel axis owns a part of every parameter, and sees the whole only while it computes with it.
//
//                     before forward   after forward   before backward   after backward
//   a layer           gather           release         gather            release, reduce-scatter gradients
//   the root          gather           keep            -                 release, reduce-scatter gradients
//
// Units that know their order (run_in_order) overlap: the next unit's gather goes on while this one computes, and its own
// reduce-scatter while the one before it does.
//
// A unit is a module and all parameters below it that no unit before it took; they travel in one packed buffer. The hooks are
// installed last, so they are outermost: a tensor-parallel style inside sees whole parameters (of its own part).
// Gradients are summed over the axis, not averaged: the loss is already divided by the tokens of the global batch.
// Values are gathered in the type that modules compute with, cast before they travel; gradients are summed in f32.
// Per step and rank: 3(P-1)/P of the bytes of each layer unit (gather twice, reduce once), 2(P-1)/P of a unit that is kept.
// Zhao et al., "PyTorch FSDP", arXiv:2304.11277; https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html
#pragma once

#include <memory>
#include <vector>

#include "chapters/04_sharded_linear/module.hpp"
#include "common/comm/in_flight.hpp"

namespace course {

// The parameters of one unit and their packed buffer. Gathering and reducing are collective over dp.
class FsdpUnit {
 public:
  FsdpUnit(const Parameters& parameters, DeviceMesh dp);
  FsdpUnit(const FsdpUnit&) = delete;

  // Own parts → whole values, unless they are whole already: pack, all-gather, lay each parameter's rows together. The first
  // half may be done early; unshard() does what is left.
  void start_unshard();
  void unshard();
  // Forgets the whole values, unless hold() keeps them.
  void reshard();
  // Whole gradients → my part of their sum over the ranks, added to the owned gradients. A parameter that no backward reached
  // adds zeros. In two halves: pack and reduce-scatter; wait and add, which does nothing where nothing was started.
  void start_reduce();
  void finish_reduce();
  // Keeps the values whole from now on, for generation; off lets them go.
  void hold(bool yes);
  double bytes() const;  // of the whole unit, as it is gathered

 private:
  friend void run_in_order(const std::vector<std::shared_ptr<FsdpUnit>>& units, InFlight& in_flight);
  friend std::shared_ptr<FsdpUnit> fully_shard(Module& module, const DeviceMesh& dp, bool reshard_after_forward);

  // A packed buffer under way.
  struct Transfer {
    Tensor own, all;
    std::shared_ptr<Work> work;
  };
  DType type() const { return pieces_.front().parameter->compute_type(); }
  // One parameter, [rows, row] elements here; rank r's part of it stands at offsets[r] in the buffer of all ranks.
  struct Piece {
    Parameter* parameter;
    int64_t rows, row;
    std::vector<int64_t> offsets;
  };

  DeviceMesh dp_;
  bool held_ = false;
  bool outermost_ = false;  // other units lie below
  std::vector<Piece> pieces_;
  Counts counts_;      // elements of each rank's part
  int64_t total_ = 0;  // and of all
  Transfer gather_, reduce_;
  FsdpUnit *next_ = nullptr, *previous_ = nullptr;  // in the order of forward, as a ring
  InFlight none_, *in_flight_ = &none_;
};

// Makes `module` a unit over the 1-D mesh `dp`. Call it for the layers first, then for the root; after parallelize_module and
// before the parameters are filled. With reshard_after_forward off the values stay whole from forward to backward, as a root
// wants them. No communication. Throws SharedError when the mesh is not 1-D or no parameter is left for the unit.
std::shared_ptr<FsdpUnit> fully_shard(Module& module, const DeviceMesh& dp, bool reshard_after_forward = true);

// Tells the units the order in which forward runs them, the outermost (the root) first, which starts and ends both passes. From
// then on a unit gathers ahead for the one that runs after it, in forward and in backward, and a reduce-scatter is waited for
// one unit later. Memory: one more unit's buffer. The units, and `in_flight`, must live as long as any of them runs. Throws
// SharedError where the first is not outermost: nobody would then wait for the last reduce-scatter.
void run_in_order(const std::vector<std::shared_ptr<FsdpUnit>>& units, InFlight& in_flight);

}  // namespace course
