"""One step of the simulation, and every limit of its retry loops.

    StepLoop.step (simulation/step.py)                            methods and limits (step_limits.py, unless stated)
    |
    |- compute a candidate at t + h; repeat with h/2
    |  |  while it is rejected                                    StepControl.failed; time.min_step of the scene
    |  |
    |  |- move constraints, forces and solids to t + h            SceneConstraints.move, System.move, Solids.move
    |  |
    |  |- detect contacts                                         Contacts.detect
    |  |     penalty springs; persistent contacts of the last
    |  |     step                                                 become springs in the linear system
    |  |     contacts with solids                                 become constraints: S, x_held, v_held
    |  |
    |  |- integrate                                               Stepper.step
    |  |  |- for each linearization                               newton_iterations of the scene
    |  |  |  |- linearize forces and contacts: A, b               System.linearize, Contacts.linearize
    |  |  |  |- solve A du = b                                    LinearSolver.solve; solver.max_iterations
    |  |  |  |- in the last one check the contacts; correct
    |  |  |  |  those that do not fit, and solve again            Contacts.check
    |  |  |  |     contacts with solids                           MAX_SOLID_SOLVES
    |  |  |  |     persistent contacts that pull                  MAX_PERSISTENT_SOLVES
    |  |  |  |     penalty springs that pull or are missing       MAX_PENALTY_SOLVES
    |  |  |- project particles inside a solid onto its surface    Contacts.project
    |  |
    |  |- improve: integrate again, with one linearization at      Stepper.improve
    |  |     the candidate, while the solver converges and
    |  |     threads exceed their extension; the first time
    |  |     also if stretch grew by more than
    |  |     MAX_STRETCH_CHANGE                                   MAX_IMPROVEMENTS, or 1 with time.max_excess
    |  |
    |  |- judge the candidate before the filters                  StepLoop.reject
    |  |     trouble: the solver did not converge                 solver.max_iterations, solver.tolerance
    |  |     trouble: stretch grew too much; not judged if a
    |  |     filter limits strain                                 MAX_STRETCH_CHANGE; max_excess, MAX_EXCESS_HALVINGS
    |  |
    |  |- without trouble, correct by the filters of the scene    Contacts.correct
    |  |  |- strain filters                                       passes of the filter
    |  |  |- self_contact, the last of them
    |  |  |  |- candidate pairs, near pairs, contacts
    |  |  |  |- impulses and continuous collision detection,
    |  |  |  |  while pairs collide                               MAX_IMPACT_PASSES of MAX_SWEEPS sweeps
    |  |  |  |- fail-safe: impact zones that grow                 MAX_ZONE_PASSES
    |  |  |- trouble: contacts are not resolved
    |  |  |- trouble: stretch grew too much                       MAX_CORRECTED_STRETCH; max_excess, MAX_EXCESS_HALVINGS
    |  |
    |  |- resolve again, with trouble or without, while the
    |  |  |  solver converged and stretch grew by more than
    |  |  |  RESOLVE_ABOVE_STRETCH                                MAX_RESOLVES
    |  |  |- add the contacts of self_contact to the linear
    |  |  |  system; end the loop if there are none               Contacts.extend_system
    |  |  |- improve once                                         Stepper.improve
    |  |  |- judge, and without trouble correct, as above         StepLoop.reject, Contacts.correct
    |  |
    |  |- reject the candidate if its last judgment or
    |  |     correction found trouble                             StepRejected if h/2 is below time.min_step
    |
    |- accept: swap state and candidate; contacts persist         Stepper.accept, Contacts.accept; StepControl.succeeded

Nothing here is physics: each number is a judgment about when to stop trying.
"""

import warp as wp

# --- The step (toile/simulation/step.py)

# A step in which the stretch of any triangle changes by more than this is rejected ([BW98] sec. 7). An unstable step
# changes it by several times as much, a good one by a few hundredths: the exact number does not matter.
MAX_STRETCH_CHANGE = 0.15

# Linearizations added to a step that stretches cloth beyond the extension of its fabric. A scene that sets
# time.max_excess gets one, because its steps are halved instead, at most MAX_EXCESS_HALVINGS times: a load stretches
# cloth at any step size.
MAX_IMPROVEMENTS, MAX_EXCESS_HALVINGS = 3, 3
# Strain beyond the extension that does not count: another linearization costs as much as the step did.
EXCESS_TOLERANCE = 0.01

# If corrections stretch a triangle by more than the first number, their contacts are added to the linear system and the
# step is solved again, at most MAX_RESOLVES times. Left to the next step, the solve would draw cloth in from around and
# corrections push it out again: folds would tie themselves in knots. Cloth that is then still stretched by more than
# the second number is rejected.
MAX_CORRECTED_STRETCH = 0.3
MAX_CONTACT_SOLVES = 2
# Multiple of the solver's tolerance at which contacts are first judged: they are seen long before it is reached.
LOOSE = 10.0

# --- Contact with solids (toile/contact/solid)

# Solves of one linearization with the contacts corrected in between. Each correction leaves about half of the errors.
MAX_STAGE_CHECKS = 4
# A solve is repeated when the fraction of contacts that it missed or that pulled exceeds the first number, or the
# fraction whose friction is far from Coulomb's the second; and once when the fraction whose friction is not close to it
# exceeds the third. What is left inside a solid is then projected onto its surface, and other states change one step
# late, as all do in the paper.
MAX_STATES_WRONG, MAX_FRICTION_WRONG, MAX_FRICTION_INEXACT = 0.05, 0.05, 0.1
# Changes of state of one particle in one step: more would let it alternate forever.
MAX_STATE_CHANGES = wp.constant(2)

# --- Contact between cloths by impulses (toile/contact/response)

# Passes of impulses and continuous collision detection over pairs that still collide, before these move as rigid zones.
# A pass may cause new impacts, and zones are always safe: the number weighs time against motions that zones make stiff.
MAX_IMPACT_PASSES = 10
# Sweeps of projected Gauss-Seidel over all contacts in a pass, and the correction below which they end, as a fraction
# of the thickness. With 20, friction between layers was 5 to 15 % too strong; most passes end after a few.
MAX_SWEEPS, SWEEP_TOLERANCE = 50, 1e-3
# Rounds in which paths that still collide end before the impact, and rounds in which they end where they began. The
# second loop ends by itself: the number only bounds the time.
MAX_SHORTENINGS, MAX_TRUNCATIONS = 12, 60
# Solves of one linearization with the springs of persistent contacts that pull removed in between. A solve is repeated
# when more than this fraction of the springs pulled.
MAX_SPRINGS_CHANGED = 0.02

# --- Contact between cloths by penalty springs (toile/contact/penalty)

# Solves of one linearization with corrected sets of active springs. A solve is repeated when more than this fraction of
# the active springs pulled or was missing, or if any missing spring overlaps by more than DEEP_OVERLAP of its length
# (toile/contact/penalty/forces.py).
MAX_PENALTY_SOLVES, MAX_SPRINGS_WRONG = 6, 0.02

# --- The linear solver (toile/linear/solver.py)

# After a solve with a stale preconditioner failed, this number of solves update it before a stale one is tried again.
SOLVES_BEFORE_RETRY = 8
