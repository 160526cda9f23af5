"""Deep Q-learning: a target network is called in each step, without no_grad; its result is detached."""

import copy
import random

import torch
from torch import nn


class Chain:
    """Walk to the right end; each step costs."""

    def reset(self):
        self.at, self.time = 3, 0
        return self.seen()

    def seen(self):
        return torch.nn.functional.one_hot(torch.tensor(self.at), 8).float()

    def step(self, action):
        self.at, self.time = max(0, min(7, self.at + 2 * action - 1)), self.time + 1
        return self.seen(), (1.0 if self.at == 7 else -0.05), self.at == 7 or self.time > 30


def main():
    torch.manual_seed(0)
    random.seed(0)
    policy = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2))
    target = copy.deepcopy(policy)
    optimizer = torch.optim.Adam(policy.parameters(), lr=2e-3)
    world, memory, step = Chain(), [], 0
    state = world.reset()
    while step < 150:
        with torch.no_grad():
            greedy = policy(state.unsqueeze(0)).argmax(1).item()
        action = random.randrange(2) if random.random() < 0.3 else greedy
        after, reward, done = world.step(action)
        memory.append((state, action, reward, after, done))
        state = world.reset() if done else after
        if len(memory) < 40:
            continue
        states, actions, rewards, nexts, dones = zip(*random.sample(memory, 32), strict=True)
        values = policy(torch.stack(states)).gather(1, torch.tensor(actions).unsqueeze(1)).squeeze(1)
        best = target(torch.stack(nexts)).max(1).values.detach()
        wanted = torch.tensor(rewards) + 0.95 * best * (1 - torch.tensor(dones, dtype=torch.float32))
        loss = nn.functional.smooth_l1_loss(values, wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        print("step", step, loss.item())
        if step % 25 == 0:
            target.load_state_dict(policy.state_dict())


if __name__ == "__main__":
    main()
