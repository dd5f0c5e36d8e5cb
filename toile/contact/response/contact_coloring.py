"""Contact coloring: two contacts of one color move no particle in common, so that a color is relaxed in parallel.

In each pass, an uncolored contact with the smallest hash at all its particles takes the smallest color that is free at
all of them. The hash is that of a contact's vertices: colors depend on the set of contacts, and not on the order in
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


@wp.struct
class ContactColors:
    """Contacts by color: those of color c are entries ends[c - 1] to ends[c] of `order`; the last have no color."""

    count: wp.array(dtype=wp.int32)  # colors in use
    ends: wp.array(dtype=wp.int32)
    order: wp.array(dtype=wp.int32)


@wp.struct
class ColoringWorkspace:
    """Arrays that coloring keeps between calls of one step, and scratch arrays."""

    done: wp.array(dtype=wp.int32)  # contacts that have been colored
    taken: wp.array2d(dtype=wp.uint64)  # bit masks of the colors at each vertex
    color: wp.array(dtype=wp.int32)  # of each contact
    claims: wp.array(dtype=wp.uint64)  # scratch: the first contact at each vertex
    uncolored: wp.array2d(dtype=wp.int32)  # scratch: contacts without a color, in this pass and the next
    uncolored_count: wp.array(dtype=wp.int32)
    next: wp.array(dtype=wp.int32)  # scratch: where the next contact of a color goes


class ContactColoring:
    """Colors the contacts of a step, as they are found."""

    def __init__(self, vertex_count: int, device: str):
        self.device = device
        self._blocks = CooperativeBlocks(device)
        self.colors, self._workspace = ContactColors(), ColoringWorkspace()
        self.colors.count = wp.zeros(1, dtype=wp.int32, device=device)
        self.colors.ends = wp.zeros(MAX_COLORS + 1, dtype=wp.int32, device=device)
        work = self._workspace
        work.done = wp.zeros(1, dtype=wp.int32, device=device)
        work.taken = wp.zeros((vertex_count, WORDS), dtype=wp.uint64, device=device)
        work.claims = wp.zeros(vertex_count, dtype=wp.uint64, device=device)
        work.uncolored_count = wp.zeros(2, dtype=wp.int32, device=device)
        work.next = wp.zeros(MAX_COLORS + 1, dtype=wp.int32, device=device)
        self._capacity = -1
        self._reserve(0)

    def clear(self) -> None:
        """Starts a new step, without contacts."""
        for array in (self._workspace.taken, self._workspace.done, self.colors.count, self.colors.ends):
            array.zero_()

    def add(self, contacts: ContactArrays, count: wp.array, inverse_mass: wp.array, known: int = 0) -> None:
        """Colors the contacts that are new; `count` is the number of all, and `known` about the same on the host."""
        if self._capacity < len(contacts.normal_impulse):
            self._reserve(len(contacts.normal_impulse))
        lanes, blocks, arrived = self._blocks.of(known)
        inputs = [lanes, blocks, contacts, count, inverse_mass, arrived, self._workspace, self.colors]
        self._launch(color_contacts, lanes, inputs)

    def _reserve(self, capacity: int) -> None:
        """Grows the capacity and keeps the colors."""
        before, colors, work = self._workspace, ContactColors(), ColoringWorkspace()
        for name in ("done", "taken", "claims", "uncolored_count", "next"):
            setattr(work, name, getattr(before, name))
        work.color, colors.order = (wp.zeros(capacity, dtype=wp.int32, device=self.device) for _ in range(2))
        work.uncolored = wp.zeros((2, capacity), dtype=wp.int32, device=self.device)
        if self._capacity > 0:
            wp.copy(work.color, before.color, count=self._capacity)
        colors.count, colors.ends = self.colors.count, self.colors.ends
        self.colors, self._workspace, self._capacity = colors, work, capacity
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
    lanes: wp.int32, blocks: wp.int32, contacts: ContactArrays, count: wp.array(dtype=wp.int32),
    inverse_mass: wp.array(dtype=mat33),
    # in and out
    arrived_out: wp.array(dtype=wp.uint64), work_out: ColoringWorkspace,
    # out
    colors_out: ContactColors,
):  # fmt: skip
    """Launched with cooperative blocks; colors the new contacts, then sorts all contacts by color."""
    lane = wp.tid()
    total = count[0]
    done = work_out.done[0]
    uncolored = total - done
    if uncolored == 0:
        return
    for j in range(lane, uncolored, lanes):
        work_out.uncolored[0, j] = done + j
        at = contacts.vertices[done + j]
        for c in range(4):
            work_out.claims[at[c]] = UNCLAIMED
    grid_barrier(blocks, arrived_out)
    current = int(0)
    coloring_pass = int(0)
    while uncolored > 0 and coloring_pass < MAX_COLORING_PASSES:
        if lane == 0:
            work_out.uncolored_count[1 - current] = 0
        for j in range(lane, uncolored, lanes):
            k = work_out.uncolored[current, j]
            at = contacts.vertices[k]
            claim = claim_of(contacts, k, coloring_pass)
            for c in range(4):
                if can_move(inverse_mass[at[c]]):
                    wp.atomic_min(work_out.claims, at[c], claim)
        grid_barrier(blocks, arrived_out)
        for j in range(lane, uncolored, lanes):
            k = work_out.uncolored[current, j]
            at = contacts.vertices[k]
            claim = claim_of(contacts, k, coloring_pass)
            first = bool(True)
            for c in range(4):
                if can_move(inverse_mass[at[c]]) and work_out.claims[at[c]] < claim:
                    first = bool(False)
            if first:
                work_out.color[k] = take_color(at, inverse_mass, work_out.taken)
            else:
                work_out.color[k] = MAX_COLORS  # unless there is another pass
                work_out.uncolored[1 - current, wp.atomic_add(work_out.uncolored_count, 1 - current, 1)] = k
        grid_barrier(blocks, arrived_out)
        current = 1 - current
        uncolored = work_out.uncolored_count[current]
        coloring_pass += 1
    # All contacts are sorted by color.
    for c in range(lane, MAX_COLORS + 1, lanes):
        work_out.next[c] = 0
    grid_barrier(blocks, arrived_out)
    for k in range(lane, total, lanes):
        wp.atomic_add(work_out.next, work_out.color[k], 1)
    grid_barrier(blocks, arrived_out)
    if lane == 0:
        end = int(0)
        used = int(0)
        for c in range(MAX_COLORS + 1):
            size = work_out.next[c]
            work_out.next[c] = end
            end += size
            colors_out.ends[c] = end
            if size > 0 and c < MAX_COLORS:
                used = c + 1
        colors_out.count[0] = used
        work_out.done[0] = total
    grid_barrier(blocks, arrived_out)
    for k in range(lane, total, lanes):
        colors_out.order[wp.atomic_add(work_out.next, work_out.color[k], 1)] = k
