#pragma once

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

/// What a controller knows before it has seen anything.
struct ControllerOptions {
  PlacementFacts model;  ///< by the cost function (remote_cut.h), and the cores that the stream may use
  Prices prices;
  PlacementGoal goal;
  double worker_start_s = 30;      ///< from asking for a worker until it works
  double worker_billed_s_min = 0;  ///< that is paid for every worker, however short it works
  /// First workers that are tried together: more than one where they wait for work already, may be unlike
  /// and cost next to nothing for a few seconds.
  std::uint32_t first_workers = 1;
  /// The model's worker costs were measured (an earlier run): no first worker is tried alone.
  bool workers_known = false;
  /// What the run before ended with, of the same plan (set_model() takes another): the stream begins with its
  /// answer, unless what is measured by then speaks against it.
  std::optional<EarlierRun> earlier{};
};

enum class Phase : std::uint8_t {
  kMeasuring,    ///< all local, until the host's part is known
  kFirstWorker,  ///< one worker, or as few as are tried at once, is measured before money is spent on more
  kStarting,     ///< the answer was asked for; its workers start
  kVerifying,    ///< it runs; is it what the model said, and are its neighbours worse?
  kSettled,      ///< they are; watching for the world to change
};
std::string_view phase_name(Phase phase);

/// How to run the stream now. `changes` counts answers (number of workers or cut) since the world changed.
struct Decision {
  Phase phase = Phase::kMeasuring;
  Running run;    ///< cores are whole, or all there are
  Choice choice;  ///< what the model says of it
  std::uint32_t changes = 0;
  double confidence = 0;     ///< that no neighbour is better by 2 % or more, 0 .. 1
  double looks_again_s = 0;  ///< at the latest, in the caller's time
  std::string why;
};

/// The decision over time. Pure: time is what the caller says it is; the same observations give the same
/// decisions. Between two worlds (stretches in which nothing measured changes by more than noise) the answer
/// is changed at most kChangesMax times; a change is made when its saving over the work left, or an hour,
/// exceeds its cost with 95 % confidence. README, "The controller". Threads: owner only.
class Controller {
 public:
  /// Errors: kInvalidArgument: those of the check() functions, times that are negative or not finite.
  static Result<Controller> create(const ControllerOptions& options);

  /// Takes in what the stream did since the last call and says how to run it from now on. `now_s` never goes
  /// back. An interval whose seconds cannot be is left out. Call about once a second.
  const Decision& observe(const Measurements& measured, double now_s);
  const Decision& decision() const { return decision_; }

  /// The world is told to be another; each decides anew, if it is. Errors: as create(); the old ones stay.
  Status set_prices(const Prices& prices);
  Status set_goal(const PlacementGoal& goal);
  Status set_cores(double cores);
  /// Another plan: what was measured of the old one says little of it; no cut of the old is valid. `earlier`
  /// is of the new one.
  Status set_model(const PlacementFacts& model, const std::optional<EarlierRun>& earlier = {});

  /// What is known by now; what it says of a stream that runs so, and of the choices beside that. For
  /// `explain`, not for every step.
  PlacementFacts facts() const { return estimate_.facts(); }
  Choice choice_of(const Running& run) const;
  std::vector<Neighbour> neighbours(const Choice& chosen) const;
  /// For the next run: what is known and decided by now; none before there is an answer and workers were
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
  std::size_t wins(const Choice& choice, const Choice& other, bool reachable, const PlacementFacts& drawn,
                   double matters = 0) const;
  /// That `choice` is better than `other`, given what was measured.
  double confidence(const Choice& choice, const Choice& other, bool reachable) const;
  double confidence_beside(const PlacementFacts& facts, const Choice& present, bool reachable) const;

  /// That the trainer can be served at all, given what was measured.
  double confidence_reachable() const;
  Result<Best> place_now(const PlacementFacts& facts);

  void world_changed(std::string_view what);
  void start_verifying();
  bool workers_came(const Measurements& measured, double now_s) const;
  void measure_first_worker(const Measurements& measured, double now_s);
  bool first_measured() const;
  void ask_first_early(double now_s);
  void dismiss_first(double now_s);
  void look(double now_s);
  void begin();
  bool begin_with_earlier(const PlacementFacts& facts, const Best& best, const Choice& present, double now_s);
  std::optional<Choice> worth_a_trial(const Choice& present) const;
  bool may_change(const Choice& to, const Case& change, double now_s);
  void ask_first(const Choice& choice, double now_s);
  void ask(const Choice& choice, const Case& change, double now_s);
  void pay(std::uint32_t workers, double now_s);
  void set_choice(const Choice& choice);
  void settle(const PlacementFacts& facts, const Choice& present, bool reachable, double now_s);

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
