"""Policy gradient: episodes of different lengths, a forward pass per action, one step per episode."""

import torch
from torch import nn
from torch.distributions import Categorical

CELLS = 8
MOST_MOVES = 40


class Corridor:
    """Start on the left; the exit is on the right. Each move costs 1."""

    def reset(self):
        self.cell, self.moves = 0, 0
        return self.observe()

    def observe(self):
        return nn.functional.one_hot(torch.tensor(self.cell), CELLS).float()

    def step(self, action):
        self.moves += 1
        self.cell = max(0, self.cell + (1 if action == 1 else -1))
        out = self.cell == CELLS - 1
        return self.observe(), -1.0, out or self.moves == MOST_MOVES


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine1 = nn.Linear(CELLS, 32)
        self.affine2 = nn.Linear(32, 2)

    def forward(self, x):
        return torch.softmax(self.affine2(torch.relu(self.affine1(x))), dim=-1)


def finish_episode(optimizer, log_probs, rewards, gamma=0.98):
    R, returns = 0.0, []
    for r in reversed(rewards):
        R = r + gamma * R
        returns.insert(0, R)
    returns = torch.tensor(returns)
    returns = (returns - returns.mean()) / (returns.std() + 1e-6)
    loss = -(torch.stack(log_probs) * returns).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def main():
    torch.manual_seed(0)
    env, policy = Corridor(), Policy()
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    recent = []
    for episode in range(1, 151):
        state, done = env.reset(), False
        log_probs, rewards = [], []
        while not done:
            distribution = Categorical(policy(state))
            action = distribution.sample()
            log_probs.append(distribution.log_prob(action))
            state, reward, done = env.step(action.item())
            rewards.append(reward)
        print("step", episode, finish_episode(optimizer, log_probs, rewards))
        recent.append(sum(rewards))
        if episode % 25 == 0:
            print(f"reward {sum(recent) / len(recent):.2f}")
            recent.clear()


if __name__ == "__main__":
    main()
