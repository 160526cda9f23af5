"""Deep Q-learning: one action after the other, now and then a batch of what was remembered."""

import copy
import random
from collections import deque

import torch
from torch import nn

BATCH_SIZE = 48


class Line:
    """Start in the middle; the right end is worth 1, the left end nothing."""

    def reset(self):
        self.place, self.moves = 0, 0
        return self.state()

    def state(self):
        return torch.tensor([self.place / 4, self.moves / 20])

    def step(self, action):
        self.moves += 1
        self.place += 1 if action else -1
        done = abs(self.place) == 4 or self.moves == 20
        return self.state(), float(self.place == 4), done


def main():
    random.seed(0)
    torch.manual_seed(0)
    policy = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 2))
    target = copy.deepcopy(policy)
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-3, amsgrad=True)
    memory, env = deque(maxlen=500), Line()
    state, steps = env.reset(), 0
    for turn in range(350):
        values = policy(state.unsqueeze(0))
        action = values.argmax(1).item() if random.random() < 0.7 else random.randrange(2)
        following, reward, done = env.step(action)
        memory.append((state, action, reward, following, done))
        state = env.reset() if done else following
        if turn < 50 or turn % 2:
            continue
        states, actions, rewards, followings, ends = zip(*random.sample(memory, BATCH_SIZE), strict=True)
        values = policy(torch.stack(states)).gather(1, torch.tensor(actions).unsqueeze(1))
        with torch.no_grad():
            best = target(torch.stack(followings)).max(1).values * ~torch.tensor(ends)
        loss = nn.functional.smooth_l1_loss(values, (torch.tensor(rewards) + 0.9 * best).unsqueeze(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        steps += 1
        print("step", steps, loss.item())
        if steps % 10 == 0:
            target.load_state_dict(policy.state_dict())


if __name__ == "__main__":
    main()
