//! The rights of users at the control socket.

use serde::{Deserialize, Serialize};

/// The rights of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// No rights.
    None,
    /// May read the state.
    Reader,
    /// May read the state and change it.
    Writer,
}

/// The rights of users, and of primary groups, which the kernel reports for a peer. The daemon's own user and
/// root always have all rights.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Roles {
    /// Users that may read the state.
    pub read_uids: Vec<u32>,
    /// Groups that may read the state.
    pub read_gids: Vec<u32>,
    /// Users that may read the state and change it.
    pub write_uids: Vec<u32>,
    /// Groups that may read the state and change it.
    pub write_gids: Vec<u32>,
}

impl Roles {
    /// Returns the rights of a peer; `own` is the daemon's user.
    pub fn role(&self, uid: u32, gid: u32, own: u32) -> Role {
        if uid == 0 || uid == own || self.write_uids.contains(&uid) || self.write_gids.contains(&gid) {
            Role::Writer
        } else if self.read_uids.contains(&uid) || self.read_gids.contains(&gid) {
            Role::Reader
        } else {
            Role::None
        }
    }

    /// Returns whether any user except the daemon's own and root has rights.
    pub(crate) fn lets_others_in(&self) -> bool {
        *self != Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_default_only_the_own_user_and_root() {
        let roles = Roles::default();
        assert_eq!(roles.role(0, 7, 1000), Role::Writer);
        assert_eq!(roles.role(1000, 7, 1000), Role::Writer);
        assert_eq!(roles.role(1001, 0, 1000), Role::None, "root's group has no role");
    }

    #[test]
    fn lists_let_users_and_groups_ask_or_change() {
        let roles =
            Roles { read_uids: vec![5], read_gids: vec![50], write_uids: vec![6], write_gids: vec![60] };
        let role = |uid, gid| roles.role(uid, gid, 1000);
        assert_eq!((role(5, 1), role(9, 50)), (Role::Reader, Role::Reader));
        assert_eq!((role(6, 1), role(9, 60), role(5, 60)), (Role::Writer, Role::Writer, Role::Writer));
        assert_eq!(role(9, 9), Role::None);
    }
}
