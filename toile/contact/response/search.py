"""Keeps the near pairs of a step up to date: searches for them are repeated only where ends have moved too far.

A search covers the motion to the ends that it was made for, and ends up to `slack` from them. When some vertices have
moved farther, their pairs alone are searched again; when many have, all are. A step ends within the slack of the ends
of its last search: the next one finds what is near where it begins among the pairs of that search, and needs no other
while nothing moves.

Source      none
Symbols     x, x_end  positions at the two ends of the step [m]     slack  how far ends may move after a search [m]
Deviations  none
"""

import numpy as np
import warp as wp

from toile.contact.broad_phase.broad_phase import BroadPhase, CandidatePairs
from toile.contact.broad_phase.motion import RelativeMotion
from toile.contact.collision_mesh import CollisionMesh
from toile.contact.narrow_phase.contact_set import ContactSet
from toile.device.launcher import Launcher
from toile.device.readback import Readback
from toile.math.types import real, vec3

# How far ends may move before pairs are searched again: fractions of the thickness and of the largest motion, but at
# most a fraction of the edge length, because otherwise all neighbors in the mesh are near pairs.
SLACK_OF_THICKNESS, SLACK_OF_MOTION, SLACK_OF_EDGES = 0.25, 0.1, 0.15
# If more than this fraction of all vertices is to be searched again, all are.
MAX_STALE = 0.25
# Near pairs of vertices that are searched again are replaced by new ones at the end of the list. If that is longer by
# this factor than after the search of all, all are searched again: most of the list is of no use then.
MAX_GROWTH = 1.5


class NearPairSearch:
    """The broad phase of a step, and the near pairs of its contact set."""

    def __init__(self, mesh: CollisionMesh, broad_phase: BroadPhase, contact_set: ContactSet):
        self.mesh, self.broad_phase, self.contact_set = mesh, broad_phase, contact_set
        n, device = mesh.count, mesh.device
        # Ends of the last search, in the frame that moves with the mean of all and at rest: free fall has no motion in
        # the first.
        self._x_relative, self._x_searched = (wp.zeros(n, dtype=vec3, device=device) for _ in range(2))
        self._motion = RelativeMotion(mesh.moving_count, device)
        self._reach = wp.zeros(n, dtype=real, device=device)
        # Vertices whose pairs have been searched again since the last search of all, and their number.
        self._stale, self._stale_count = (wp.zeros(k, dtype=wp.int32, device=device) for k in (n, 1))
        self._readback = Readback(self._stale_count)
        self._searched_again = 0
        self._pairs: CandidatePairs | None = None  # of all vertices
        self._pairs_again: CandidatePairs | None = None  # of the stale ones
        self._boxes_of_last_step = False  # whether the boxes of the broad phase are those of the step before
        self._slack = 0.0
        self._near_pair_count = 0  # after the last search of all
        self._launch = Launcher(device)

    def at_start(self) -> None:
        """Finds the pairs that are near where the step begins."""
        mesh = self.mesh
        if self._pairs is not None and self._count_stale(mesh.x) == 0:
            bent = self.broad_phase.find_bent(mesh.x, self._x_searched, self._slack, self._stale)
            if self._searched_again + bent <= MAX_STALE * mesh.count:
                self._motion.mean.zero_()  # that of the last step
                self._boxes_of_last_step = True
                if bent:
                    self._searched_again += bent
                    self._pairs_again = self._find_pairs(self._stale)
                self._find_near_pairs(self._x_searched)
                return
        self._search(mesh.x)  # without motion there are few pairs

    def update(self) -> None:
        """Finds the pairs that are near on the way to x_end, where ends have moved too far since the last search."""
        mesh = self.mesh
        if not mesh.moving_count:
            return
        count = self._count_stale(mesh.x_end)
        grown = self.contact_set.near_pairs.count > MAX_GROWTH * self._near_pair_count
        if self._pairs is None or self._searched_again + count > MAX_STALE * mesh.count or (count and grown):
            self._search(mesh.x_end)
        elif count:
            self._searched_again += count
            self._pairs_again = self._find_pairs(self._stale)
            self._add_near_pairs_again(self._x_relative)

    def _search(self, x_end: wp.array) -> None:
        """Searches for all vertices, for motions to x_end."""
        mesh = self.mesh
        largest_motion = self._motion.find(mesh.x, x_end)
        least = SLACK_OF_THICKNESS * mesh.thickest
        slack = min(least + SLACK_OF_MOTION * largest_motion, SLACK_OF_EDGES * mesh.edge_length)
        # A power of two, because packed launches are keyed by their numbers.
        self._slack = float(2.0 ** np.floor(np.log2(max(slack, least))))
        wp.copy(self._x_searched, x_end)
        self._stale.zero_()
        self._searched_again, self._pairs_again = 0, None
        self._pairs = self._find_pairs(None)
        self._find_near_pairs(self._x_relative)

    def _find_pairs(self, only: wp.array | None) -> CandidatePairs:
        """Runs the broad phase, for all vertices or for some."""
        mesh = self.mesh
        at = [self._x_searched, self._motion.mean, mesh.reach, self._slack]
        self._launch(prepare_search, mesh.count, [*at, self._x_relative, self._reach])
        all_moved, self._boxes_of_last_step = self._boxes_of_last_step, False
        return self.broad_phase.find(
            mesh.x, self._x_relative, self._reach, only, slack=self._slack, all_moved=all_moved
        )

    def _find_near_pairs(self, x_end: wp.array) -> None:
        """Finds the near pairs among those that have been searched."""
        assert self._pairs is not None
        self.contact_set.find_near_pairs(self._pairs, x_end, self._slack)
        self._near_pair_count = self.contact_set.near_pairs.count
        if self._pairs_again is not None:
            self._add_near_pairs_again(x_end)

    def _add_near_pairs_again(self, x_end: wp.array) -> None:
        """Replaces the near pairs of the stale vertices."""
        assert self._pairs_again is not None
        self.contact_set.find_near_pairs(self._pairs_again, x_end, self._slack, self._stale)

    def _count_stale(self, x_end: wp.array) -> int:
        """Marks the vertices that are farther than the slack from where they were searched; returns their number."""
        self._stale_count.zero_()
        at = [x_end, self._slack, self._x_searched, self._stale, self._stale_count]
        self._launch(find_stale, self.mesh.count, at)
        return int(self._readback()[0])


@wp.kernel
def prepare_search(
    # in
    x_searched: wp.array(dtype=vec3), mean: wp.array(dtype=vec3), thickness: wp.array(dtype=real), slack: real,
    # out
    x_relative_out: wp.array(dtype=vec3), reach_out: wp.array(dtype=real),
):  # fmt: skip
    """Ends of the search in the frame of the mean motion, and the margin of each vertex."""
    i = wp.tid()
    x_relative_out[i] = x_searched[i] - mean[0]
    reach_out[i] = thickness[i] + slack


@wp.kernel
def find_stale(
    # in
    x_end: wp.array(dtype=vec3), slack: real,
    # in and out
    x_searched_out: wp.array(dtype=vec3), stale_out: wp.array(dtype=wp.int32),
    # out
    count_out: wp.array(dtype=wp.int32),
):  # fmt: skip
    """Marks vertices whose end is farther than `slack` from the end they were searched with, and updates that end."""
    i = wp.tid()
    if wp.length(x_end[i] - x_searched_out[i]) > slack:
        x_searched_out[i] = x_end[i]
        stale_out[i] = 1
        wp.atomic_add(count_out, 0, 1)
