"""One step of the simulation, and every limit of its retry loops.

    StepLoop.step (simulation/step.py)                            methods and limits (step_limits.py, unless stated)
    |
    |- compute a candidate at t + h; repeat with h/2
    |  |  while it is rejected                                    StepControl.failed; time.min_step of the scene
    |  |
    |  |- move constraints, forces and solids to t + h            SceneConstraints.move, System.move, Solids.move
    |  |
    |  |- detect contacts                                         Contacts.detect
    |  |     contacts with solids                                 become constraints: S, x_held, v_held
    |  |     penalty springs; contacts between cloths, with
    |  |     the loads that they had in the last step             become springs in the linear system
    |  |     after a hard step also pairs that will collide       HARD_PASSES
    |  |
    |  |- integrate                                               Stepper.step
    |  |  |- for each linearization                               newton_iterations of the scene
    |  |  |  |- linearize forces and contacts: A, b               System.linearize, Contacts.linearize
    |  |  |  |- solve A du = b                                    LinearSolver.solve; solver.max_iterations
    |  |  |  |- in the last one check the contacts, correct
    |  |  |  |     them, and solve again; the solves before the
    |  |  |  |     last stop at LOOSE times the tolerance         Contacts.check; MAX_CONTACT_SOLVES
    |  |  |- while more than FEW_STRETCHED of the threads exceed
    |  |  |     their limit or grew by MAX_STRETCH_CHANGE, more
    |  |  |     than FEW_CLOSE of the contacts between cloths
    |  |  |     are much too close, or they added
    |  |  |     MAX_ENERGY_GAIN, and it HELPED: linearize and
    |  |  |     solve once more at the result                     MAX_IMPROVEMENTS, or 1 with time.max_excess
    |  |  |- project particles inside a solid onto its surface    Contacts.project
    |  |
    |  |- judge the candidate before the filters                  StepLoop.reject
    |  |     trouble: the solver did not converge                 solver.max_iterations, solver.tolerance
    |  |     trouble: stretch grew too much; not judged if a
    |  |     filter limits strain, and less strictly where
    |  |     self_contact limits that of few threads              MAX_STRETCH_CHANGE; FEW_GROWN, HOPELESS_STRETCH;
    |  |                                                          max_excess, MAX_EXCESS_HALVINGS
    |  |
    |  |- without trouble, correct by the filters of the scene    Contacts.correct
    |  |  |- strain filters                                       passes of the filter
    |  |  |- self_contact, the last of them
    |  |  |  |- candidate pairs, near pairs
    |  |  |  |- impulses and continuous collision detection,
    |  |  |  |     while pairs collide                            MAX_IMPACT_PASSES of MAX_SWEEPS sweeps
    |  |  |  |- fail-safe: paths that still collide end before
    |  |  |  |     the impact, again where solids carry more      MAX_SHORTENINGS, MAX_TRUNCATIONS; MAX_CARRIES
    |  |  |- trouble: contacts are not resolved
    |  |  |- trouble: stretch grew too much                       MAX_CORRECTED_STRETCH; max_excess, MAX_EXCESS_HALVINGS
    |  |
    |  |- reject the candidate if there was trouble               StepRejected if h/2 is below time.min_step
    |
    |- accept: swap state and candidate; contacts keep loads      Stepper.accept, Contacts.accept; StepControl.succeeded

Nothing here is physics: each number is a judgment about when to stop trying.
"""

import warp as wp

# --- The step (toile/simulation/step.py)

# A step in which the stretch of any triangle changes by more than this is rejected ([BW98] sec. 7). An unstable step
# changes it by several times as much, a good one by a few hundredths: the exact number does not matter.
MAX_STRETCH_CHANGE = 0.15
# Where cloth is in contact, limits of stretch among the contact impulses shorten the threads that grow by more than
# that, if they are at most this fraction of all, as where a corner whips: half the step would move all the cloth for
# the sake of a few triangles. A thread that grows by its whole length is beyond them.
FEW_GROWN, HOPELESS_STRETCH = 1e-3, 1.0
# Nor is such a step linearized again for up to this fraction of all threads that are too long.
FEW_STRETCHED = 2e-3
# Nor for pairs of cloths that come much too close, if they are at most this fraction of all, or of all vertices of
# cloth: impulses part them.
FEW_CLOSE = 0.01
# A linearization more helps if it leaves less than this fraction of what was wrong.
HELPED = 0.6

# Linearizations added to a step that stretches cloth beyond the extension of its fabric, or in which cloths come too
# close by more than CLOSEST of their thickness (toile/contact/response/spring_kernels.py). A scene that sets
# time.max_excess gets one, because its steps are halved instead, at most MAX_EXCESS_HALVINGS times: a load stretches
# cloth at any step size.
MAX_IMPROVEMENTS, MAX_EXCESS_HALVINGS = 3, 3
# A step with contacts between cloths is linearized once more where it gains more than this fraction of its energy.
# Steps that do so gain several times as much, others none: the exact number does not matter.
MAX_ENERGY_GAIN = 0.01
# Where cloth moves by less than this fraction of its thickness in a step, in the root mean square, nothing hits
# anything: energies are too small to be judged by.
AT_REST = 0.1

# Largest strain of a thread of cloth in contact, in units of the extension of the fabric or of a filter that limits it,
# and largest strain of any edge; what was longer before the step may remain so.
MAX_OVERSTRETCH, MAX_EDGE_STRAIN = 1.25, 0.2
# Largest fraction of all threads and edges that impulses shorten to these limits after a solve. Where cloth whips or is
# wrung it is at most a third of that; where solids draw cloth out it is several times as many.
FEW_LIMITED = 0.01
# A candidate in which corrections stretch a triangle by more than this is rejected.
MAX_CORRECTED_STRETCH = 0.3
# Solves of the first linearization that contacts are judged by, those with solids and those between cloths alike. Each
# correction leaves about half of the errors; impulses and projections, and the next step, correct the rest.
MAX_CONTACT_SOLVES = 2
# Multiple of the solver's tolerance at which contacts are first judged: they are seen long before it is reached.
LOOSE = 10.0

# --- Contact with solids (toile/contact/solid)

# Checks of the contacts of a step without a linear system, with the contacts corrected in between.
MAX_STAGE_CHECKS = 4
# Contacts do not fit when the fraction that was missed or that pulled exceeds the first number, or the fraction whose
# friction is far from Coulomb's the second; and at first when the fraction whose friction is not close to it exceeds
# the third. What is left inside a solid is then projected onto its surface, and other states change one step late, as
# all do in the paper.
MAX_STATES_WRONG, MAX_FRICTION_WRONG, MAX_FRICTION_INEXACT = 0.05, 0.05, 0.1
# Changes of state of one particle in one step: more would let it alternate forever.
MAX_STATE_CHANGES = wp.constant(2)

# --- Contact between cloths by impulses (toile/contact/response)

# Passes of impulses and continuous collision detection over pairs that still collide, before their paths are shortened.
# A pass may cause new impacts, and short paths are always safe: the number weighs time against momentum that is lost.
MAX_IMPACT_PASSES = 10
# After a step with impacts in this number of passes, those that velocities lead to are contacts of the next one from
# its start. Elsewhere they would only cost a search.
HARD_PASSES = 3
# Jacobi sweeps over all contacts in a pass, and the correction below which they end, as a fraction of the thickness.
# Too few sweeps pinch folds into knots; most passes end after a few.
MAX_SWEEPS, SWEEP_TOLERANCE = 50, 1e-3
# Rounds in which paths that still collide end before the impact, and rounds in all: in those after the first ones they
# end where they began. These end by themselves: the second number only bounds the time.
MAX_SHORTENINGS, MAX_TRUNCATIONS = 12, 60
# Repetitions of these rounds after more cloth has been found that moving solids must carry along: one is the rule, and
# a shorter step is cheaper than many. They have few shortenings: most of what collides has been found to be stuck.
MAX_CARRIES, SHORTENINGS_AGAIN = 3, 2
# Multistep integrators begin afresh after a step in which contacts between cloths took more than this fraction of the
# kinetic energy.
IMPACT = 0.01

# --- Contact between cloths by penalty springs (toile/contact/penalty)

# The set of active springs is corrected after a solve when more than this fraction of them pulled or was missing, or if
# any missing spring overlaps by more than DEEP_OVERLAP of its length (toile/contact/penalty/forces.py).
MAX_SPRINGS_WRONG = 0.02

# --- The linear solver (toile/linear/solver.py)

# After a solve with a stale preconditioner failed, this number of solves update it before a stale one is tried again.
SOLVES_BEFORE_RETRY = 8
