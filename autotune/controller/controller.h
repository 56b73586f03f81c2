#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "autotune/controller/estimate.h"
#include "autotune/placement/neighbours.h"
#include "autotune/placement/placement.h"
#include "base/error.h"

namespace carya::autotune {

/// What a controller knows before the first measurement.
struct ControllerOptions {
  PlacementInputs model;  ///< the costs by remote_cut.h, and the cores that the stream may use
  Prices prices;
  PlacementGoal goal;
  double worker_start_s = 30;      ///< time from asking for a worker until it computes
  double worker_billed_s_min = 0;  ///< time that is paid for every worker at least
  /// How many first workers are tried together. More than one pays off where workers are running already, may differ,
  /// and cost next to nothing for a few seconds.
  std::uint32_t first_workers = 1;
  /// The model's worker costs were measured by an earlier run: no first worker is tried alone.
  bool workers_known = false;
  /// What an earlier run of the same plan ended with. The stream begins with its answer unless the measurements speak
  /// against it.
  std::optional<EarlierRun> earlier{};
};

enum class Phase : std::uint8_t {
  kMeasuring,    ///< everything runs locally until the host's costs are known
  kFirstWorker,  ///< first workers are measured before money is spent on more
  kStarting,     ///< the workers of the answer start
  kVerifying,    ///< the answer runs and is compared with the model and with its neighbours
  kSettled,      ///< the answer is confirmed; the controller watches for a change of the world
};
std::string_view phase_name(Phase phase);

/// How to run the stream now.
struct Decision {
  Phase phase = Phase::kMeasuring;
  Running run;                ///< a whole number of cores, or all of them
  Choice choice;              ///< what the model says of `run`, by the measurements so far
  std::uint32_t changes = 0;  ///< how often the number of workers or the cut changed since the world changed
  double confidence = 0;      ///< that no neighbour is better by 2 % or more, 0 to 1
  double looks_again_s = 0;   ///< when it looks again at the latest, in the caller's time
  std::string why;
};

/// Decides over time how many workers a stream uses and where its plan is cut. Pure: the caller says what time it is,
/// and the same observations give the same decisions.
///
/// A world is a stretch of time in which no measurement changes by more than noise. In one world the answer changes at
/// most kChangesMax times. It changes when the saving over the work that is left, or over an hour, exceeds the cost of
/// the change with 95 % confidence. See "The controller" in the README. Threads: owner only.
class Controller {
 public:
  /// Errors: kInvalidArgument (those of the check() functions; a time that is negative or not finite).
  static Result<Controller> create(const ControllerOptions& options);

  /// Record what the stream did since the last call, and return how to run it from now on. Call about once a second.
  /// `now_s` never goes back. An interval of an impossible length is ignored.
  const Decision& observe(const Measurements& measured, double now_s);
  const Decision& decision() const { return decision_; }

  /// Replace one input; if it changed, the decision is made again. Errors: as create(); the old input stays.
  Status set_prices(const Prices& prices);
  Status set_goal(const PlacementGoal& goal);
  Status set_cores(double cores);
  /// Turn to another plan. Measurements and cuts of the old plan are dropped. `earlier` is an earlier run of the new
  /// plan.
  Status set_model(const PlacementInputs& model, const std::optional<EarlierRun>& earlier = {});

  /// The costs that are known by now, what the model says of a stream that runs as `run`, and the choices beside it.
  /// For `explain`; too slow for every step.
  PlacementInputs facts() const { return estimate_.facts(); }
  /// For a claim on workers that others want too: while nobody has measured one, and one is worth a trial, as they are if
  /// it turns out as hoped. Else a stream whose workers were thought too dear would never get the one that shows it.
  PlacementInputs facts_to_claim() const;
  /// Of `most`, as many as such a claim may ask for: one until the stream was measured, since what is unknown has no limit.
  std::uint32_t workers_to_claim(std::uint32_t most) const {
    return decision_.phase == Phase::kMeasuring ? std::min(1U, most) : most;
  }
  Choice choice_of(const Running& run) const;
  std::vector<Neighbour> neighbours(const Choice& chosen) const;
  /// What the next run begins with: the costs and the answer. None before there is an answer and workers were
  /// measured.
  std::optional<EarlierRun> learned() const;

  static constexpr std::uint32_t kChangesMax = 3;

 private:
  explicit Controller(const ControllerOptions& options);

  /// A change and what speaks for it.
  struct Case {
    double saving = 0;      // $ over the horizon
    double cost = 0;        // $ of the change
    double confidence = 0;  // that it is better at all
    double gain = 0;        // share by which it is faster or cheaper, whichever is more
    bool serves = false;    // it ends waiting of the trainer that the goal does not accept
    bool worth() const { return confidence >= 0.95 && (serves || saving > cost); }
  };
  Case weigh(const Choice& from, const Choice& to, bool reachable) const;
  double change_cost(const Choice& from, const Choice& to) const;
  /// 1 if `choice` is better than `other` by facts that were drawn, else 0; 0 too where neither cost nor rate
  /// differ by the share `matters`.
  std::size_t wins(const Choice& choice, const Choice& other, bool reachable, const PlacementInputs& drawn,
                   double matters = 0) const;
  /// That `choice` is better than `other`, given what was measured.
  double confidence(const Choice& choice, const Choice& other, bool reachable) const;
  double confidence_beside(const PlacementInputs& facts, const Choice& present, bool reachable) const;

  /// That the trainer can be served at all, given what was measured.
  double confidence_reachable() const;
  Result<Best> place_now(const PlacementInputs& facts);

  void world_changed(std::string_view what);
  void start_verifying();
  bool workers_came(const Measurements& measured, double now_s) const;
  void measure_first_worker(const Measurements& measured, double now_s);
  bool first_measured() const;
  void ask_first_early(double now_s);
  void dismiss_first(double now_s);
  void look(double now_s);
  void tell_prediction();
  void begin();
  bool begin_with_earlier(const PlacementInputs& facts, const Best& best, const Choice& present,
                          double now_s);
  PlacementInputs hoped(PlacementInputs facts) const;
  std::optional<Choice> worth_a_trial(const Choice& present, const PlacementGoal& goal) const;
  bool may_change(const Choice& to, const Case& change, double now_s);
  void ask_first(const Choice& choice, double now_s);
  void ask(const Choice& choice, const Case& change, double now_s);
  void pay(std::uint32_t workers, double now_s);
  void set_choice(const Choice& choice);
  bool contradicted() const;
  void settle(const PlacementInputs& facts, const Choice& present, bool reachable, double now_s);

  ControllerOptions options_;
  Estimate estimate_;
  Decision decision_;

  bool workers_known_;
  double horizon_s_;        // that a change pays for itself in
  std::uint64_t seen_ = 0;  // observations since the last change of answer or world
  std::uint64_t look_at_seen_ = 0;
  double asked_s_ = 0;        // when workers were last asked for
  double first_again_s_ = 0;  // when a first worker may be tried again
  std::uint32_t vain_ = 0;    // first workers in a row that led to nothing, in this world
  bool serves_ = false;       // the trainer can be served, by the last time that this was clear
  std::uint64_t worlds_ = 0;  // changes of the world
  double settled_whole_ = 1;  // Estimate::whole() when it was settled
  bool as_before_ = false;    // the answer of the earlier run is still to be looked at
  std::uint32_t ready_ = 0;   // workers of the last interval
  bool steady_ = false;       // the interval under way runs as decided from its start on

  // Workers that are paid for until then, whatever happens.
  struct Paid {
    std::uint32_t workers;
    double until_s;
  };
  std::vector<Paid> paid_;

  // The last change, to be not undone by noise.
  struct Change {
    Running before, after;
    double at_s = -1e300;
    std::uint64_t world = 0;
  } last_;
};

}  // namespace carya::autotune
