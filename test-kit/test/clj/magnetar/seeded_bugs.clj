(ns magnetar.seeded-bugs
  "Defects planted in the library while a program is simulated: controls of models."
  (:require
   [magnetar.report :as report]
   [magnetar.test :as mt])
  (:import
   (magnetar.kernel.sched Fault)))

(set! *warn-on-reflection* true)

(defn without-reports
  "A fixture: what crashes is not reported, since it is meant to."
  [test]
  (let [silent (report/add-hook :report (fn [_]))]
    (try (test) (finally (report/remove-hook :report silent)))))

(defn- caught
  "What a model has against the run, or what stopped it; another error is the defect's own, and proves nothing."
  [seed program]
  (let [{:keys [error problem]} (mt/simulate* {:seed seed} program)]
    (when (and error (not (:flaws (ex-data error))))
      (throw error))
    (or (first (:flaws (ex-data error))) problem)))

(defn with-defect
  "What `f` returns with the defect planted."
  [defect f]
  (if (string? defect)
    (try
      (Fault/seed (Fault/valueOf defect))
      (f)
      (finally (Fault/seed nil)))
    (with-redefs-fn (into {} (map (fn [[v spoil]] [v (spoil @v)])) defect) f)))

(defn found
  "What is wrong with the first of so many runs that a model refuses with the defect: the name of a fault point of the kernel, or a map from var to
  what makes the defective function of the sound one; nil if it refuses none."
  [defect runs program]
  (with-defect defect
    (fn []
      (some #(caught % program) (range runs)))))
