"""Contact coloring: two contacts of one color move no particle in common, so that a color is relaxed in parallel.

    in passes   of the contacts without a color, one that is first at every particle it moves takes the first color
                that none of these particles has yet

The order is decided by a hash of a contact's vertices: colors depend on the set of contacts, and not on the order in
which they were found. Contacts that are added later in the step are colored after those that have a color. The few that
get no color, or are left after the last pass, are relaxed one after the other.

Cooperative blocks of threads color all contacts in one launch (toile/device/grid_barrier.py).

Source      none; passes by random numbers are those of Jones and Plassmann 1993, "A parallel graph coloring heuristic"
Deviations  none
"""

import warp as wp

from toile.contact.narrow_phase.contact_set import ContactArrays
from toile.device.grid_barrier import CooperativeBlocks, grid_barrier
from toile.device.launcher import Launcher
from toile.math.types import mat33, real

# Bit masks of the colors taken at a particle: bits per word, and words. A particle in a stack of ten sheets has up to
# 170 contacts, one in a drape 30.
BITS, WORDS = wp.constant(64), wp.constant(3)
MAX_COLORS = wp.constant(64 * 3)
# A claim has 9 bits for the pass, 40 of the hash and, should two be equal, 15 of the index in the list.
PASS_SHIFT, HASH_SHIFT = wp.constant(wp.uint64(55)), wp.constant(wp.uint64(15))
MAX_COLORING_PASSES, DROPPED_BITS = wp.constant(511), wp.constant(wp.uint64(24))
INDEX_MASK = wp.constant(wp.uint64(2**15 - 1))
UNCLAIMED = wp.constant(wp.uint64(2**64 - 1))
# Odd, and without a pattern: it carries the lower bits of a number to the upper ones.
HASH_MULTIPLIER = wp.constant(wp.uint64(0xD1342543DE82EF95))


class ContactColoring:
    """Contact colors of a step.

    Contacts of color c are entries ends[c - 1] to ends[c] of `order`; those without a color are the last range.
    """

    def __init__(self, vertex_count: int, device: str):
        self.device = device
        self._blocks = CooperativeBlocks(device)
        self._taken = wp.zeros((vertex_count, WORDS), dtype=wp.uint64, device=device)
        self._claims = wp.zeros(vertex_count, dtype=wp.uint64, device=device)
        self._done = wp.zeros(1, dtype=wp.int32, device=device)
        self._uncolored_count = wp.zeros(2, dtype=wp.int32, device=device)
        self.ends, self._next = (wp.zeros(MAX_COLORS + 1, dtype=wp.int32, device=device) for _ in range(2))
        self.count = wp.zeros(1, dtype=wp.int32, device=device)  # colors in use
        self._reserve(0)

    def clear(self) -> None:
        """Starts a new step, without contacts."""
        for array in (self._taken, self._done, self.count, self.ends):
            array.zero_()

    def add(self, contacts: ContactArrays, count: wp.array, inverse_mass: wp.array, known: int = 0) -> None:
        """Colors the contacts that are new; `count` is the number of all, and `known` about the same on the host."""
        if len(self.order) < len(contacts.normal_impulse):
            self._reserve(len(contacts.normal_impulse))
        own = [self._done, self._taken, self._claims, self._uncolored_count, self._uncolored, self._color]
        sorted_by_color = [self.count, self.ends, self._next, self.order]
        blocks = self._blocks.of(known)
        self._launch(color_contacts, blocks[0], [*blocks, contacts, count, inverse_mass, *own, *sorted_by_color])

    def _reserve(self, capacity: int) -> None:
        kept = getattr(self, "_color", None)
        self.order, self._color = (wp.zeros(capacity, dtype=wp.int32, device=self.device) for _ in range(2))
        self._uncolored = wp.zeros((2, capacity), dtype=wp.int32, device=self.device)
        if kept is not None and len(kept):
            wp.copy(self._color, kept, count=len(kept))
        self._launch = Launcher(self.device)  # the old one keeps launches with the old arrays


@wp.func
def add_to_hash(hash_value: wp.uint64, value: wp.int32) -> wp.uint64:
    """Adds a value to a hash."""
    product = (hash_value ^ wp.uint64(value)) * HASH_MULTIPLIER
    return product ^ (product >> wp.uint64(32))


@wp.func
def claim_of(contacts: ContactArrays, k: wp.int32, coloring_pass: wp.int32) -> wp.uint64:
    """The priority of a contact; smaller in every pass, so that claims of the pass before do not count."""
    at = contacts.vertices[k]
    hash_value = add_to_hash(wp.uint64(contacts.kind[k] + 1), at[0])
    hash_value = add_to_hash(add_to_hash(add_to_hash(hash_value, at[1]), at[2]), at[3])
    upper = wp.uint64(MAX_COLORING_PASSES - coloring_pass) << PASS_SHIFT
    return upper | ((hash_value >> DROPPED_BITS) << HASH_SHIFT) | (wp.uint64(k) & INDEX_MASK)


@wp.func
def can_move(inverse_mass: mat33) -> wp.bool:
    """Whether a vertex with this inverse mass moves at all."""
    return wp.trace(inverse_mass) > real(0.0)


@wp.func
def take_color(at: wp.vec4i, inverse_mass: wp.array(dtype=mat33), taken: wp.array2d(dtype=wp.uint64)) -> wp.int32:
    """Takes the first color that no particle of a contact has."""
    one = wp.uint64(1)
    for word in range(WORDS):
        used = wp.uint64(0)
        for c in range(4):
            if can_move(inverse_mass[at[c]]):
                used = used | taken[at[c], word]
        if used != UNCLAIMED:
            bit = int(0)
            while ((used >> wp.uint64(bit)) & one) == one:
                bit += 1
            for c in range(4):
                if can_move(inverse_mass[at[c]]):
                    taken[at[c], word] = taken[at[c], word] | (one << wp.uint64(bit))
            return BITS * word + bit
    return MAX_COLORS


@wp.kernel
def color_contacts(
    # in
    lanes: wp.int32, blocks: wp.int32, arrived: wp.array(dtype=wp.uint64), contacts: ContactArrays,
    count: wp.array(dtype=wp.int32), inverse_mass: wp.array(dtype=mat33),
    # in and out
    done_out: wp.array(dtype=wp.int32), taken_out: wp.array2d(dtype=wp.uint64), claims_out: wp.array(dtype=wp.uint64),
    uncolored_count_out: wp.array(dtype=wp.int32), uncolored_out: wp.array2d(dtype=wp.int32),
    color_out: wp.array(dtype=wp.int32),
    # out
    color_count_out: wp.array(dtype=wp.int32), ends_out: wp.array(dtype=wp.int32), next_out: wp.array(dtype=wp.int32),
    order_out: wp.array(dtype=wp.int32),
):
    """Launched with cooperative blocks; colors the new contacts, then sorts all contacts by color."""
    lane = wp.tid()
    total = count[0]
    done = done_out[0]
    uncolored = total - done
    if uncolored == 0:
        return
    for j in range(lane, uncolored, lanes):
        uncolored_out[0, j] = done + j
        at = contacts.vertices[done + j]
        for c in range(4):
            claims_out[at[c]] = UNCLAIMED
    grid_barrier(blocks, arrived)
    current = int(0)
    coloring_pass = int(0)
    while uncolored > 0 and coloring_pass < MAX_COLORING_PASSES:
        if lane == 0:
            uncolored_count_out[1 - current] = 0
        for j in range(lane, uncolored, lanes):
            k = uncolored_out[current, j]
            at = contacts.vertices[k]
            claim = claim_of(contacts, k, coloring_pass)
            for c in range(4):
                if can_move(inverse_mass[at[c]]):
                    wp.atomic_min(claims_out, at[c], claim)
        grid_barrier(blocks, arrived)
        for j in range(lane, uncolored, lanes):
            k = uncolored_out[current, j]
            at = contacts.vertices[k]
            claim = claim_of(contacts, k, coloring_pass)
            first = bool(True)
            for c in range(4):
                if can_move(inverse_mass[at[c]]) and claims_out[at[c]] < claim:
                    first = bool(False)
            if first:
                color_out[k] = take_color(at, inverse_mass, taken_out)
            else:
                color_out[k] = MAX_COLORS  # unless there is another pass
                uncolored_out[1 - current, wp.atomic_add(uncolored_count_out, 1 - current, 1)] = k
        grid_barrier(blocks, arrived)
        current = 1 - current
        uncolored = uncolored_count_out[current]
        coloring_pass += 1
    # All contacts are sorted by color.
    for c in range(lane, MAX_COLORS + 1, lanes):
        next_out[c] = 0
    grid_barrier(blocks, arrived)
    for k in range(lane, total, lanes):
        wp.atomic_add(next_out, color_out[k], 1)
    grid_barrier(blocks, arrived)
    if lane == 0:
        end = int(0)
        used = int(0)
        for c in range(MAX_COLORS + 1):
            size = next_out[c]
            next_out[c] = end
            end += size
            ends_out[c] = end
            if size > 0 and c < MAX_COLORS:
                used = c + 1
        color_count_out[0] = used
        done_out[0] = total
    grid_barrier(blocks, arrived)
    for k in range(lane, total, lanes):
        order_out[wp.atomic_add(next_out, color_out[k], 1)] = k
